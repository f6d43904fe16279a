"""Finds the problems of a job's `checkpoint`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfoperator.api.fields.problems import Problem, member
from tfoperator.api.replicas.templates import is_absent
from tfoperator.api.v1.parts.checkpoint import Checkpoint
from tfoperator.api.validation.checks import volume_sources, warning
from tfoperator.api.validation.declared import field_problems


def validate_checkpoint(checkpoint: Checkpoint | None) -> Iterator[Problem]:
    """Yield the problems of `spec.checkpoint`, errors and warnings; nothing if the job has no checkpoint."""
    if checkpoint is not None:
        rules = {"volume": _validate_volume("spec.checkpoint.volume", checkpoint.volume)}
        yield from field_problems("spec.checkpoint", checkpoint, rules)


def _validate_volume(path: str, raw: msgspec.Raw) -> Iterator[Problem]:
    example = "such as persistentVolumeClaim: {claimName: checkpoints}"
    if is_absent(raw):
        yield Problem(path, f"is required and must be a volume as in a pod's spec, {example}")
        return
    volume = msgspec.json.decode(raw)
    if not isinstance(volume, dict):
        yield Problem(path, f"must be an object, {example}")
        return
    if "name" in volume:
        yield warning(member(path, "name"), "has no effect: the operator sets the name of the volume")
    kinds = volume_sources(volume)
    if len(kinds) != 1:
        actual = f", but has {' and '.join(kinds)}" if kinds else ""
        yield Problem(path, f"must have exactly one kind of volume, {example}{actual}")
    elif kinds == ["emptyDir"]:
        yield warning(
            path,
            "is an emptyDir: each pod has its own emptyDir, which is deleted with the pod, so a new pod "
            "does not find the checkpoints",
        )
