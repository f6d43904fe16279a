"""A gang's PodGroup as a cache keeps it: bounded in bytes, whatever its author writes.

Any user of a namespace may write a PodGroup with the labels of a job, of 1.5 MB. The operator compares a PodGroup with
what its job wants, so it needs more than the names of its own: each annotation that an administrator lets jobs pass on.

Of *annotations* a cache keeps eight bytes each, of up to MAX_ANNOTATIONS: from these the operator knows whether the
PodGroup has an annotation with this value, also for a value that a job wants later. More annotations than that are
*beyond the bounds*, and so are resources of more than MAX_RESOURCES names. The rule for such a member: it is replaced
if the value that the job wants is within the bounds, for then it differs for certain, and the next state of the
PodGroup is within them. Where the operator can't know that (annotations of others are never removed; the job itself
wants too much), it leaves the member as it is. So it does not write a PodGroup again and again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.kube.views.objects import HasMetadata, PodCondition, compacting

MAX_ANNOTATIONS = 256
"""A job passes on 64 at most, as many as its own cache keeps."""
MAX_RESOURCES, MAX_RESOURCES_TEXT = 32, 2048
"""Names of resources, and characters of names and quantities together. A gang of today's clusters has under ten."""

_MAX_NAME = 253
_MAX_PHASE = 64
_MARK = 8
_MAX_CONDITIONS, _MAX_MESSAGE = 4, 2048
_WHY_NOT_ADMITTED = "Unschedulable"
"""The type of the only condition of a PodGroup that the operator reads."""


class MinCount(msgspec.Struct, frozen=True, rename="camel"):
    """The number of pods that Kubernetes' own scheduler places together."""

    min_count: int = 0


class GroupPolicy(msgspec.Struct, frozen=True):
    """How Kubernetes' own scheduler places a group."""

    gang: MinCount = MinCount()


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a PodGroup, of any kind. The last three fields are of Kubernetes' own, and can't be changed there.

    `min_resources` is None where it is beyond the bounds of a cache: it has resources, and they are not known.
    """

    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, str | int] | None = {}
    schedule_timeout_seconds: int | None = None
    scheduling_policy: GroupPolicy = GroupPolicy()
    disruption_mode: dict[str, Any] | None = None
    scheduling_constraints: dict[str, Any] | None = None

    @property
    def members(self) -> int:
        """How many pods are placed together."""
        return self.min_member or self.scheduling_policy.gang.min_count


class PodGroupStatus(msgspec.Struct, frozen=True):
    """The status that a scheduler writes to a PodGroup.

    The times of Volcano's conditions are left out: they change every minute, and the operator doesn't need them.
    """

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class PodGroup(HasMetadata, frozen=True):
    """A PodGroup of any kind, trimmed. `marks` stand for its annotations; None where it has too many to be known."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)
    marks: bytes | None = msgspec.field(default=b"", name="-")

    def lacks(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Return the wanted annotations that it doesn't have; none if that can't be known."""
        if self.marks is None:
            return {}
        has = {self.marks[start : start + _MARK] for start in range(0, len(self.marks), _MARK)}
        return {key: value for key, value in wanted.items() if _mark(key, value) not in has}


def short_name(name: str) -> str:
    """Return the name as a cache keeps it: cut if it is longer than the name of any object."""
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME]


def is_kept(resources: Mapping[str, str | int]) -> bool:
    """Return whether a cache keeps these resources: they are within the bounds."""
    return (
        len(resources) <= MAX_RESOURCES
        and sum(len(name) + len(str(amount)) for name, amount in resources.items()) <= MAX_RESOURCES_TEXT
    )


def _mark(key: str, value: str) -> bytes:
    """Return eight bytes that stand for an annotation. A key has no NUL, so two annotations never give one text."""
    return hashlib.blake2b(f"{key}\0{value}".encode(), digest_size=_MARK).digest()


def _bounded(data: bytes) -> PodGroup:
    group = _decode(data)
    annotations, spec, status = group.metadata.annotations, group.spec, group.status
    known = len(annotations) <= MAX_ANNOTATIONS
    reasons = [one for one in status.conditions if one.type == _WHY_NOT_ADMITTED][:_MAX_CONDITIONS]
    resources = spec.min_resources or {}
    return PodGroup(
        metadata=group.metadata,
        spec=PodGroupSpec(
            min_member=spec.min_member,
            queue=short_name(spec.queue),
            priority_class_name=short_name(spec.priority_class_name),
            min_resources=resources if is_kept(resources) else None,
            schedule_timeout_seconds=spec.schedule_timeout_seconds,
            scheduling_policy=spec.scheduling_policy,
            # Only whether there is one is read.
            disruption_mode=None if spec.disruption_mode is None else {},
            scheduling_constraints=None if spec.scheduling_constraints is None else {},
        ),
        status=PodGroupStatus(
            status.phase[:_MAX_PHASE],
            tuple(
                PodCondition(one.type, one.status[:_MAX_PHASE], short_name(one.reason), one.message[:_MAX_MESSAGE])
                for one in reasons
            ),
        ),
        marks=b"".join(_mark(key, value) for key, value in annotations.items()) if known else None,
    )


_decode = msgspec.json.Decoder(PodGroup).decode

decode_pod_group = compacting(_bounded)
"""Decode a PodGroup for a cache: trimmed, shared, only what is in use. Raises msgspec.DecodeError."""
