"""The option `--runtime`, for the commands that run pods on this machine."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["Runtime", "RuntimeOption"]


class Runtime(StrEnum):
    """What pods run as: the names of `tfoperator.local.runtimes`, which takes time to import."""

    PROCESS = "process"
    DOCKER = "docker"


RuntimeOption = Annotated[
    Runtime, typer.Option("--runtime", help="What pods run as: processes of this machine, or Docker containers.")
]
