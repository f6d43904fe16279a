"""The runtimes by name. Docker's is loaded only when it is requested: its library is an extra."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from tfoperator.local.runtime.process.runtime import ProcessRuntime
from tfoperator.local.runtime.protocol import HostService, Runtime, RuntimeUnavailable


class RuntimeName(StrEnum):
    """The runtime of pods."""

    PROCESS = "process"
    DOCKER = "docker"


def make_runtime(
    name: RuntimeName,
    *,
    records: Path,
    work_dir: Path | None = None,
    allow_privileged: bool = False,
    enforce_limits: bool = False,
    host_service: HostService | None = None,
) -> Runtime:
    """Return a runtime that has not been started. Raises RuntimeUnavailable.

    `records`, `work_dir` and `enforce_limits` are for processes, which have your rights; Docker always enforces limits.
    `allow_privileged` is for Docker containers, which could get root's. `host_service` must be reachable for them.
    """
    if name is RuntimeName.PROCESS:
        return ProcessRuntime(records=records, work_dir=work_dir, enforce_limits=enforce_limits)
    try:
        from tfoperator.local.runtime.docker.runtime import DockerRuntime
    except ImportError as error:
        raise RuntimeUnavailable(str(error)) from None
    return DockerRuntime(allow_privileged=allow_privileged, host_service=host_service)
