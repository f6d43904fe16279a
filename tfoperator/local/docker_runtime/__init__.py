"""The Docker runtime: every container of a pod is a container. The only place of `local` that imports docker-py.

One network per namespace makes Docker's own DNS answer for the services, so nothing has to be rewritten: a container
gets exactly what its manifest says.
"""

from tfoperator.local.docker_runtime.engine import connect
from tfoperator.local.docker_runtime.leftovers import remove_leftovers, remove_run
from tfoperator.local.docker_runtime.runtime import DockerRuntime

__all__ = ["DockerRuntime", "connect", "remove_leftovers", "remove_run"]
