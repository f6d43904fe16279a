"""The options of what pods run as, for the commands that run pods on this machine."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class RuntimeChoice(StrEnum):
    """What pods run as: the names of `tfoperator.local.runtime`, which takes time to import."""

    PROCESS = "process"
    DOCKER = "docker"


RuntimeOption = Annotated[
    RuntimeChoice, typer.Option("--runtime", help="What pods run as: processes of this machine, or Docker containers.")
]

AllowPrivilegedOption = Annotated[
    bool,
    typer.Option(
        "--allow-privileged",
        help="Let Docker containers have folders of this machine (hostPath), its network, or be privileged.",
    ),
]

EnforceLimitsOption = Annotated[
    bool,
    typer.Option(
        "--enforce-limits",
        help="Give processes no more CPU and memory than their limits say, by control groups; containers have it so.",
    ),
]
