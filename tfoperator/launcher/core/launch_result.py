"""What a launch that has succeeded returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.launcher.core.component import Artifact


class LaunchResult(msgspec.Struct, frozen=True):
    """A success. `outputs` and `exec_properties` are those of the component, unless output.json has others.

    `cached`: nothing ran, an earlier execution's outputs are used. `attempts` counts the executions of this launch.
    """

    component: str
    execution_id: int
    outputs: Mapping[str, tuple[Artifact, ...]]
    exec_properties: Mapping[str, Any]
    cached: bool = False
    attempts: int = 1
    image_id: str = ""
