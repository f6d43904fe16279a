"""The Docker runtime.

It runs every container of a pod as a Docker container. In the package `local`, only this part imports docker-py. Each
namespace has one Docker network, and Docker's own DNS resolves the names of services. So the addresses of services in a
manifest are valid in the containers, and this runtime (unlike the runtime `process`) does not replace them.
"""
