"""The Docker runtime: every container of a pod is a container. The only place of `local` that imports docker-py.

One network per namespace makes Docker's own DNS answer for the services, so nothing has to be rewritten: a container
gets exactly what its manifest says.
"""

from tfoperator.local.runtime.docker.engine import connect
from tfoperator.local.runtime.docker.leftovers import OWNER_LABEL, new_run, remove_leftovers
from tfoperator.local.runtime.docker.runtime import DockerRuntime

__all__ = ["OWNER_LABEL", "DockerRuntime", "connect", "new_run", "remove_leftovers"]
