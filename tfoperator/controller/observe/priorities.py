"""PriorityClasses: by what a scheduler orders the pods that wait for a node."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfoperator.kube.objects import HasMetadata


class PriorityClass(HasMetadata, frozen=True, rename="camel"):
    """A PriorityClass, trimmed."""

    value: int = 0
    global_default: bool = False


decode_priority_class = msgspec.json.Decoder(PriorityClass).decode


def priorities_of(classes: Sequence[PriorityClass]) -> dict[str, int]:
    """The priority by the name of the class; under "" that of pods which name none."""
    found = {one.metadata.name: one.value for one in classes}
    found[""] = next((one.value for one in classes if one.global_default), 0)
    return found
