"""The runtimes by name. Docker's is loaded only when it is asked for: its library is an extra."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from tfoperator.local.process_runtime import ProcessRuntime
from tfoperator.local.runtime import Runtime, RuntimeUnavailable

__all__ = ["RuntimeName", "make_runtime"]


class RuntimeName(StrEnum):
    """What pods run as."""

    PROCESS = "process"
    DOCKER = "docker"


def make_runtime(name: RuntimeName, *, records: Path, work_dir: Path | None = None) -> Runtime:
    """A runtime that has not been started; `records` and `work_dir` are for processes. Raises RuntimeUnavailable."""
    if name is RuntimeName.PROCESS:
        return ProcessRuntime(records=records, work_dir=work_dir)
    try:
        from tfoperator.local.docker_runtime import DockerRuntime
    except ImportError as error:
        raise RuntimeUnavailable(str(error)) from None
    return DockerRuntime()
