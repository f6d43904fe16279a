"""The runtimes by name, and the choice of a runtime. Each runtime is loaded only when it is requested: commands must
start fast, and Docker's library is an extra.
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
    """The runtime of pods."""

    PROCESS = "process"
    DOCKER = "docker"


class RuntimeOptions(msgspec.Struct, frozen=True):
    """The runtime of pods, and its settings.

    Processes have your rights, and start in `work_dir`, by default the current directory; with `enforce_limits` they
    get no more than their limits, as containers always do. With `allow_privileged`, containers may have root's power
    over this machine. With `keep_volumes`, a pod's volumes outlive it.
    """

    name: RuntimeName = RuntimeName.PROCESS
    work_dir: Path | None = None
    allow_privileged: bool = False
    enforce_limits: bool = False
    keep_volumes: bool = False

    @property
    def in_containers(self) -> bool:
        """Whether pods have their own file systems and networks."""
        return self.name is not RuntimeName.PROCESS


PROCESSES = RuntimeOptions()
"""The default."""


def make_runtime(wanted: RuntimeOptions, *, records: Path) -> Runtime:
    """Return a runtime that has not been started; `records` is for processes. Raises RuntimeUnavailable."""
    if not wanted.in_containers:
        from tfoperator.local.runtime.process.runtime import ProcessRuntime

        return ProcessRuntime(records=records, work_dir=wanted.work_dir, enforce_limits=wanted.enforce_limits)
    check_docker_py()
    from tfoperator.local.runtime.docker.runtime import DockerRuntime

    return DockerRuntime(allow_privileged=wanted.allow_privileged)


def check_docker_py() -> None:
    """Raise RuntimeUnavailable without Docker's library, which `local.runtime.docker` imports."""
    if find_spec("docker") is None:
        from tfoperator.local.runtime.protocol import RuntimeUnavailable

        raise RuntimeUnavailable("the Docker runtime needs docker-py: pip install 'tfoperator[docker]'")
