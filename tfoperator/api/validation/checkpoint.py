"""Finds the problems of a job's `checkpoint`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tfoperator.api.problems import Problem, member, shown
from tfoperator.api.templates import is_absent
from tfoperator.api.v1.types import Checkpoint
from tfoperator.api.validation.limits import MAX_PATH_LENGTH, MOUNT_PATH_PATTERN, volume_sources, warning

_MOUNT_PATH = re.compile(MOUNT_PATH_PATTERN)


def validate_checkpoint(checkpoint: Checkpoint) -> Iterator[Problem]:
    """Yield the problems of `spec.checkpoint`, errors and warnings."""
    path = "spec.checkpoint"
    yield from _validate_volume(member(path, "volume"), checkpoint.volume)
    mount_path = checkpoint.mount_path
    if not mount_path:
        yield Problem(member(path, "mountPath"), "is required")
    elif not _MOUNT_PATH.fullmatch(mount_path):
        yield Problem(
            member(path, "mountPath"),
            f"must be an absolute path, not / itself and without colons, but is {shown(mount_path)}",
        )
    elif len(mount_path) > MAX_PATH_LENGTH:
        yield Problem(member(path, "mountPath"), f"must have at most {MAX_PATH_LENGTH} characters")


def _validate_volume(path: str, raw: msgspec.Raw) -> Iterator[Problem]:
    example = "such as persistentVolumeClaim: {claimName: checkpoints}"
    if is_absent(raw):
        yield Problem(path, f"is required: a volume as in a pod's spec, {example}")
        return
    volume = msgspec.json.decode(raw)
    if not isinstance(volume, dict):
        yield Problem(path, f"must be an object, {example}")
        return
    if "name" in volume:
        yield warning(member(path, "name"), "has no effect: the operator names the volume")
    kinds = volume_sources(volume)
    if len(kinds) != 1:
        found = f", but has {' and '.join(kinds)}" if kinds else ""
        yield Problem(path, f"must have one kind of volume, {example}{found}")
    elif kinds == ["emptyDir"]:
        yield warning(path, "an emptyDir is each pod's own and goes with it: its checkpoints will not be found again")
