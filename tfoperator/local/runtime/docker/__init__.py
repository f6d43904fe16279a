"""The Docker runtime: every container of a pod is a Docker container. Only this part of `local` imports docker-py.

With one network per namespace, Docker's own DNS resolves the services' names, so nothing is rewritten: a container gets
exactly the values of its manifest.
"""

from tfoperator.local.runtime.docker.engine import connect
from tfoperator.local.runtime.docker.leftovers import OWNER_LABEL, new_run, remove_leftovers
from tfoperator.local.runtime.docker.runtime import DockerRuntime

__all__ = ["OWNER_LABEL", "DockerRuntime", "connect", "new_run", "remove_leftovers"]
