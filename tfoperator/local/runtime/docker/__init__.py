"""The Docker runtime: every container of a pod is a Docker container. Only this part of `local` imports docker-py.

With one network per namespace, Docker's own DNS resolves the services' names. So this runtime rewrites no addresses: a
container gets exactly the values of its manifest.
"""
