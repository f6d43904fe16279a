"""A gang's PodGroup as a cache keeps it. The cached object has a limited size, whatever the PodGroup contains.

Any user of a namespace may write a PodGroup of 1.5 MB that has the labels of a job. The operator compares a PodGroup
with the PodGroup that its job wants. So the operator needs more than the names of its own annotations: it needs each
annotation that an administrator allows jobs to pass on to their PodGroups.

A cache keeps eight bytes for each of up to MAX_ANNOTATIONS *annotations*. From these bytes the operator can find out
whether the PodGroup has an annotation with a certain value, even if a job requests this value only later. A PodGroup
with more annotations is *beyond the bounds*. So is a PodGroup with resources that have more than MAX_RESOURCES names.
If such a field of the PodGroup is beyond the bounds and the value that the job wants is within the bounds, the operator
replaces the field: the two values certainly differ. The next state of the PodGroup is then within the bounds. If the
operator can't compare the values, it leaves the field unchanged. This is the case for annotations (the operator never
removes other writers' annotations), and for a job whose own value is beyond the bounds. So the operator does not write
a PodGroup again and again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.kube.views.objects import HasMetadata, compacting
from tfoperator.kube.views.pod_status import PodCondition

MAX_ANNOTATIONS = 256
"""The maximum number of annotations of a PodGroup whose hashes a cache keeps. A job passes on at most 64 annotations,
because the cache of jobs keeps no more.
"""
MAX_RESOURCES, MAX_RESOURCES_TEXT = 32, 2048
"""The maximum number of resources, and of characters of names and quantities together. A gang in today's clusters has
fewer than ten resources.
"""

_MAX_NAME = 253
_MAX_PHASE = 64
_MARK = 8
_MAX_CONDITIONS, _MAX_MESSAGE = 4, 2048
_WHY_NOT_ADMITTED = "Unschedulable"
"""The type of the single PodGroup condition that the operator reads."""


class MinCount(msgspec.Struct, frozen=True, rename="camel"):
    """The number of pods that Kubernetes' own scheduler places together."""

    min_count: int = 0


class GroupPolicy(msgspec.Struct, frozen=True):
    """How Kubernetes' own scheduler places a group."""

    gang: MinCount = MinCount()


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a PodGroup, of any kind.

    Only PodGroups of Kubernetes' own scheduler have the last three fields. Such a PodGroup allows a change of
    `scheduling_policy`, but not of any other field. `min_resources` is None if the resources are beyond the bounds of a
    cache: the PodGroup has resources, but the cache does not contain them.
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
        """The number of pods that the scheduler places together."""
        return self.min_member or self.scheduling_policy.gang.min_count


class PodGroupStatus(msgspec.Struct, frozen=True):
    """The status that a scheduler writes to a PodGroup.

    The times of Volcano's conditions are left out: they change every minute, and the operator doesn't need them.
    """

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class PodGroup(HasMetadata, frozen=True):
    """A PodGroup of any kind, reduced to the fields that the operator uses.

    `marks` are hashes of its annotations. `marks` is None if the PodGroup has more annotations than the cache keeps.
    """

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)
    marks: bytes | None = msgspec.field(default=b"", name="-")

    def lacks(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Return the wanted annotations that the PodGroup lacks.

        The result is empty if the cache does not contain the PodGroup's annotations.
        """
        if self.marks is None:
            return {}
        has = {self.marks[start : start + _MARK] for start in range(0, len(self.marks), _MARK)}
        return {key: value for key, value in wanted.items() if _mark(key, value) not in has}


def short_name(name: str) -> str:
    """Return the name in the form that a cache keeps: cut if it is longer than any object's name can be."""
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME]


def is_kept(resources: Mapping[str, str | int]) -> bool:
    """Return whether a cache keeps these resources, because they are within the bounds."""
    return (
        len(resources) <= MAX_RESOURCES
        and sum(len(name) + len(str(amount)) for name, amount in resources.items()) <= MAX_RESOURCES_TEXT
    )


def _mark(key: str, value: str) -> bytes:
    """Return eight bytes that identify an annotation and its value.

    A key contains no NUL, so two different annotations never give the same text.
    """
    return hashlib.blake2b(f"{key}\0{value}".encode(), digest_size=_MARK).digest()


def _bounded(data: bytes) -> PodGroup:
    group = _decode(data)
    annotations, spec, status = group.metadata.annotations, group.spec, group.status
    keeps_marks = len(annotations) <= MAX_ANNOTATIONS
    reasons = [condition for condition in status.conditions if condition.type == _WHY_NOT_ADMITTED][:_MAX_CONDITIONS]
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
            # The operator reads only whether these two fields are set.
            disruption_mode=None if spec.disruption_mode is None else {},
            scheduling_constraints=None if spec.scheduling_constraints is None else {},
        ),
        status=PodGroupStatus(
            status.phase[:_MAX_PHASE],
            tuple(
                PodCondition(
                    condition.type,
                    condition.status[:_MAX_PHASE],
                    short_name(condition.reason),
                    condition.message[:_MAX_MESSAGE],
                )
                for condition in reasons
            ),
        ),
        marks=b"".join(_mark(key, value) for key, value in annotations.items()) if keeps_marks else None,
    )


_decode = msgspec.json.Decoder(PodGroup).decode

decode_pod_group = compacting(_bounded)
"""Decode a PodGroup for a cache. The result contains only the fields that the operator uses, and shares equal values.
Raises msgspec.DecodeError.
"""
