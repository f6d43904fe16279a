"""The runtimes by name, and the choice between them. A runtime's module is loaded only when the runtime is requested,
because commands must start fast and Docker's library is an optional dependency (an extra).
"""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tfoperator.local.runtime.protocol import Runtime


class RuntimeName(StrEnum):
    """The names of the runtimes for pods."""

    PROCESS = "process"
    DOCKER = "docker"


class RuntimeOptions(msgspec.Struct, frozen=True):
    """The chosen runtime for pods, and its settings.

    Processes run with the rights of the user who starts tfoperator. Processes start in `work_dir`, by default the
    current directory. With `enforce_limits`, processes get at most the CPU and memory of their limits. For Docker
    containers, limits are always enforced. With `allow_privileged`, containers may get the power of root over this
    machine. With `keep_volumes`, a pod's volumes are kept after the pod is removed.
    """

    name: RuntimeName = RuntimeName.PROCESS
    work_dir: Path | None = None
    allow_privileged: bool = False
    enforce_limits: bool = False
    keep_volumes: bool = False

    @property
    def in_containers(self) -> bool:
        """Whether each pod has its own file system and its own network."""
        return self.name is not RuntimeName.PROCESS


PROCESSES = RuntimeOptions()
"""The default of the commands: the process runtime without limits."""


def make_runtime(wanted: RuntimeOptions, *, records: Path) -> Runtime:
    """Return a runtime that has not been started.

    `records` is the folder in which the process runtime records its processes, links and mount points. Raises
    RuntimeUnavailable if the library of the Docker runtime is missing.
    """
    if not wanted.in_containers:
        from tfoperator.local.runtime.process.runtime import ProcessRuntime

        return ProcessRuntime(records=records, work_dir=wanted.work_dir, enforce_limits=wanted.enforce_limits)
    check_docker_py()
    from tfoperator.local.runtime.docker.runtime import DockerRuntime

    return DockerRuntime(allow_privileged=wanted.allow_privileged)


def check_docker_py() -> None:
    """Raise RuntimeUnavailable if Docker's library is missing. `local.runtime.docker` imports this library."""
    if find_spec("docker") is None:
        from tfoperator.local.runtime.protocol import RuntimeUnavailable

        raise RuntimeUnavailable("the Docker runtime needs docker-py: pip install 'tfoperator[docker]'")
