"""The Docker runtime.

It runs every container of a pod as a Docker container. In the package `local`, only this part imports docker-py. Each
namespace has one Docker network, and Docker's own DNS resolves the names of services. So this runtime changes no
addresses: a container gets exactly the values in its manifest.
"""
