"""The changes that a rule may propose; a rule is a function of facts, and its proposal is the list of its changes.

Pure. Rules `yield` what they want. A rule never reads the proposals of other rules; `combine` (combine.py) decides
between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tfoperator.api.replicas.names import ANNOTATION_STOPPED, replica_of
from tfoperator.api.replicas.replica_pods import STOP_DEADLINE, is_ending
from tfoperator.api.v1.condition_types import ConditionType, OwnReason
from tfoperator.api.v1.reasons import EventType, ForeignReason, JobReason
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.values.actions import (
    Action,
    Create,
    Delete,
    DeleteReason,
    Looks,
    Patch,
    PhaseName,
    PlannedEvent,
    StopReason,
)
from tfoperator.kube.views.objects import HasMetadata, Pod


class SetCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition to set; with `if_there`, only if the job already has the condition."""

    condition: ConditionType
    status: str
    reason: JobReason | OwnReason | ForeignReason
    message: str
    if_there: bool = False


class RemoveCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition to remove from the job."""

    condition: ConditionType


class Act(msgspec.Struct, frozen=True, gc=False):
    """An action, and the phase of the plan in which it is executed.

    The phases are executed one after the other. Actions of the same phase are independent, except a service and its
    pod, which have the same name.
    """

    phase: PhaseName
    action: Action


class Replace(msgspec.Struct, frozen=True, gc=False):
    """A failed pod to delete, and the new pod of the same name to create if the deletion succeeds."""

    deletion: Delete
    creation: Create


class LookAgain(msgspec.Struct, frozen=True, gc=False):
    """The maximum number of seconds until the next plan."""

    seconds: float


class StatusFirst(msgspec.Struct, frozen=True, gc=False):
    """The status must be stored before any action is executed."""


class StatusPart(msgspec.Struct, frozen=True):
    """New values for fields of the status, by the fields' names in TFJobStatus."""

    members: Mapping[str, Any]


MAX_REQUEUE = 3600.0
"""The maximum number of seconds until the next sync. A deadline that is further away is reached in several syncs: each
sync reads the wall clock again, which may have been corrected, while the queue's timer uses the monotonic clock.
"""

STATUS_FIRST = StatusFirst()


Want = SetCondition | RemoveCondition | PlannedEvent | Act | Replace | LookAgain | StatusFirst | StatusPart | Looks
Proposal = tuple[Want, ...]
Rule = Callable[[Facts], Iterable[Want]]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that all rules propose together, in the order of the rules."""

    acts: tuple[Act | Replace, ...] = ()
    conditions: tuple[SetCondition | RemoveCondition, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    parts: Mapping[str, Any] = {}
    """New values for fields of the status, by the fields' names in TFJobStatus."""
    look_again: float | None = None
    """The maximum number of seconds until the next sync."""
    read: tuple[Pod, ...] = ()
    """The pods whose newest log lines are read, pod after pod, until a line is newer than `newer_than`."""
    newer_than: datetime | None = None
    stacks: tuple[Pod, ...] = ()
    """The pods in which the stacks of all threads are taken."""
    keep: frozenset[str] = frozenset()
    """The UIDs of pods that must stay until their logs are archived."""
    is_status_first: bool = False
    """Whether the status must be stored before any action is executed."""
    is_as_before: bool = False
    """Whether the status does not change."""

    @property
    def job_deletion(self) -> Act | None:
        """The deletion of the job itself, if a rule proposes it."""
        return next((act for act in self.acts if isinstance(act, Act) and act.action.kind == "tfjobs"), None)


class PrecedenceRow(NamedTuple):
    """A rule of precedence: which proposal has precedence, how the rule is applied, and why."""

    wins: str
    apply: Callable[[Facts, Wanted], Wanted]
    because: str


def observation(condition: ConditionType, message: str, *, holds: bool, if_there: bool = False) -> SetCondition:
    """Return the change that sets a condition to True (`holds`) or False, with its reason in ConditionType.

    Raises TypeError if the condition's row in ConditionType has no reason for this status.
    """
    reason = condition.traits.when_true if holds else condition.traits.when_false
    if reason is None:
        field = "when_true" if holds else "when_false"
        raise TypeError(f"the row of {condition} in ConditionType has no {field}: declare it, or name a JobReason")
    return SetCondition(condition, "True" if holds else "False", OwnReason(reason.word), message, if_there)


def event(reason: JobReason, message: str, *, kind: EventType | None = None) -> PlannedEvent:
    """Return an event about the job; `kind` replaces the event type of the reason."""
    return PlannedEvent(kind or reason.event_type, reason.value, message)


def differs(facts: Facts, wanted: SetCondition) -> bool:
    """Return whether the job does not have the condition yet, or its status, reason or message differs."""
    old = facts.condition(wanted.condition)
    return old is None or (old.status, old.reason, old.message) != (wanted.status, wanted.reason, wanted.message)


def delete(
    kind: OwnedKind,
    owned: HasMetadata | None,
    reason: DeleteReason,
    *,
    grace: int | None = None,
    as_seen: bool = False,
) -> Iterator[Act]:
    """Delete an object, unless it does not exist or is already being deleted.

    With `grace` (in seconds), the deletion with this grace period is requested even if the object is already being
    deleted. With `as_seen`, the object is deleted only if it is still as the cache shows it: for example, a pod that
    is no longer pending stays.
    """
    if owned is not None and (owned.metadata.deletion_timestamp is None or grace is not None):
        yield Act(PhaseName.DELETIONS, deletion(kind, owned, reason, grace=grace, as_seen=as_seen))


def deletion(
    kind: OwnedKind, owned: HasMetadata, reason: DeleteReason, *, grace: int | None = None, as_seen: bool = False
) -> Delete:
    """Return the deletion of an object."""
    meta = owned.metadata
    return Delete(
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        replica=replica_of(meta.labels),
        reason=reason,
        resource_version=meta.resource_version if as_seen else "",
        grace_period_seconds=grace,
    )


def stop(pod: Pod, reason: StopReason) -> Iterator[Act]:
    """Make the kubelet end the pod with SIGTERM and its grace period, unless the pod is already deleted or stopped.

    The pod's object and its log stay. The patch sets `activeDeadlineSeconds`: it is the only field with which an API
    server allows a client to end a running pod without deleting it. The field can be lowered, but never raised. If a
    cache is behind, the operator may try to stop a pod again. The API server refuses this second patch because of the
    resourceVersion in it, so the stop is not reported twice.
    """
    if is_ending(pod):
        return
    meta = pod.metadata
    patch = Patch(
        kind="pods",
        name=meta.name,
        uid=meta.uid,
        replica=replica_of(meta.labels),
        required=False,
        body={
            "metadata": {"resourceVersion": meta.resource_version, "annotations": {ANNOTATION_STOPPED: reason}},
            "spec": {"activeDeadlineSeconds": STOP_DEADLINE},
        },
        spec_field="spec.runPolicy.cleanPodPolicy",
    )
    yield Act(PhaseName.STOPS, patch)


def sooner(before: float | None, seconds: float) -> float:
    """Return the sooner of two times for the next sync, in seconds from now: at least 0, at most `MAX_REQUEUE`."""
    seconds = min(max(seconds, 0.0), MAX_REQUEUE)
    return seconds if before is None else min(before, seconds)
