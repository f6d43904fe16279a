"""The output of `plan()`: a `Plan`, whose phases hold the actions to carry out.

Plans and actions are plain frozen data. So a plan can be compared, printed and tested without a cluster. Some rules of
execution depend on the object: a service comes before its pod, a PodGroup before the pods, and a TensorBoard never
fails the job. The fields of actions and phases, such as `required` and `needs`, express these rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any, Self

import msgspec

from tfoperator.api.replicas.names import STOPPED_WITH_REPLICA
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import EventType, JobReason
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.controller.kinds import ObjectKind
from tfoperator.kube.views.objects import Pod

ReplicaId = tuple[ReplicaType, int]
"""A replica's type and index."""


class DeleteReason(StrEnum):
    """The reason for deleting an object; for logs, metrics and event messages."""

    RESTART = "restart"
    NODE_LOST = "node-lost"
    SCALE_DOWN = "scale-down"
    DUPLICATE = "duplicate"
    SUSPEND = "suspend"
    FINISHED = "job-finished"
    NOT_WANTED = "not-wanted-any-more"
    EXPIRED = "time-to-live-is-over"


class StopReason(StrEnum):
    """The reason for stopping a pod; the value of the pod's annotation `ANNOTATION_STOPPED`."""

    SUCCEEDED = "job-succeeded"
    FAILED = "job-failed"
    REPLICA_ENDED = STOPPED_WITH_REPLICA


class _ObjectAction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields that all actions have: the kind and the name of the object, and its part in the job.

    `replica` is None for an object that belongs to no replica, or whose labels name no replica. `required` determines
    the effect of a failure. The job can't continue without a required object, so if the API server refuses that object
    permanently, the job becomes invalid. A failure with any other object is reported once and retried, and the job
    continues.
    """

    kind: ObjectKind
    name: str
    replica: ReplicaId | None = None
    required: bool = True


class Create(_ObjectAction, frozen=True, kw_only=True, gc=False):
    """An object to create.

    `body` may share parts with other bodies in the plan: encode it, but don't change it. `spec_field` is the field of
    the job from which the object is made; if the API server refuses the object, this field is reported as the cause.
    `replacement` means that the replica had a pod before.
    """

    body: dict[str, Any]
    spec_field: str
    replacement: bool = False


class Patch(_ObjectAction, frozen=True, kw_only=True, gc=False):
    """A merge patch of an object, with `uid` as precondition: if another object has the name now, the patch is refused.

    A `strategic` patch is Kubernetes' strategic merge patch, which only built-in kinds support.
    """

    uid: str
    body: dict[str, Any]
    spec_field: str
    strategic: bool = False


class Delete(_ObjectAction, frozen=True, kw_only=True, gc=False):
    """An object to delete, with `uid` as precondition.

    With `grace_period_seconds` None, the object's own grace period applies; 0 is a forced deletion. With
    `resource_version` the object is deleted only in the state that was seen: if it has changed since, another plan
    decides.
    """

    uid: str
    reason: DeleteReason
    resource_version: str = ""
    grace_period_seconds: int | None = None


Action = Create | Patch | Delete


class Looks(msgspec.Struct, frozen=True):
    """Pods to inspect. The inspection changes no object; when it is done, the job gets a new plan.

    Actions don't wait for the inspection.
    """

    keep: tuple[Pod, ...] = ()
    """The pods whose logs are copied into the archive, so that a later plan can delete the pods."""
    read: tuple[Pod, ...] = ()
    """The pods whose newest log lines are read, pod after pod, until a line is newer than `newer_than`."""
    newer_than: datetime | None = None
    stacks: tuple[Pod, ...] = ()
    """The pods in which the stacks of all threads are taken and kept."""


NO_LOOKS = Looks()


class PhaseName(StrEnum):
    """The phases of a plan, in the order of their execution.

    PodGroups and services are created before pods: a gang scheduler can't handle pods whose PodGroup does not exist,
    and a process can't start until its own name resolves.
    """

    DELETIONS = "deletions"
    STOPS = "stops"
    POD_GROUP = "pod-group"
    NETWORK = "network"
    REPLICAS = "replicas"
    TENSORBOARD = "tensorboard"


class Phase(msgspec.Struct, frozen=True):
    """Actions that may be carried out in parallel, except the actions of one chain.

    The actions of a chain are executed in order. If a creation fails and its object does not exist, or if a deletion
    fails, the rest of the chain is skipped.
    """

    name: PhaseName
    chains: tuple[tuple[Action, ...], ...]
    slow_start: bool = False
    """Whether 1, 2, 4 ... chains are executed at a time, and none after a failure. Most causes of failed creations (a
    quota, an admission webhook that does not respond) affect all chains.
    """
    needs: frozenset[PhaseName] = frozenset()
    """The phases on which this phase depends: if an object of such a phase could not be created or deleted, this phase
    is skipped.
    """

    @property
    def actions(self) -> Iterator[Action]:
        """Every action, chain by chain."""
        return chain.from_iterable(self.chains)


class PlannedEvent(msgspec.Struct, frozen=True):
    """An event about the job; it is sent after the status write of the plan, if any, has succeeded.

    `reason` is a plain string and not a JobReason: Python's garbage collector does not track strings, and many events
    are kept.
    """

    type: EventType
    reason: str
    message: str

    @classmethod
    def of(cls, reason: JobReason, message: str) -> Self:
        """Return the event with this reason. Raises TypeError for a reason that only conditions have."""
        return cls(reason.event_type, reason.value, message)


class Plan(msgspec.Struct, frozen=True):
    """The actions for a job now, and its new status.

    The caller executes a plan in this order:

    1. Write `status` if `write_status_first` is set.
    2. Start the inspections of `looks`.
    3. Execute `phases` in their order.
    4. Write `status` if `write_status` is set.
    5. Send `events`, only if a necessary status write has succeeded, so that a retry doesn't repeat the events.
    """

    status: TFJobStatus
    """The complete desired status."""
    phases: tuple[Phase, ...] = ()
    looks: Looks = NO_LOOKS
    write_status_first: bool = False
    """Whether `status` must be stored before anything is changed, because it records a restart, a suspension or the
    job's end. If the write fails, the execution stops there and is retried.
    """
    write_status: bool = False
    """Whether `status` differs enough from the observed status to be worth a write. Without `write_status`, `status`
    may still have small changes (started indexes), which the next write includes.
    """
    events: tuple[PlannedEvent, ...] = ()
    requeue_after: float | None = None
    """The number of seconds after which the decision changes even without an event; None if only an event can change
    the decision.
    """
    absent: tuple[str, ...] = ()
    """The names of pods that existed before and are gone, although the operator has not deleted them. Creations and
    counts in this plan depend on the absence of these pods. If the cache may be stale, the caller can look these pods
    up before it acts.
    """
    transitions: frozenset[ConditionType] = frozenset()
    """The conditions that become True with `status`."""

    @property
    def actions(self) -> Iterator[Action]:
        """Every action, in the order of the phases."""
        return chain.from_iterable(chain.from_iterable(phase.chains for phase in self.phases))

    @property
    def changes_objects(self) -> bool:
        """Whether the plan creates, changes or deletes objects, apart from the write of the job's status."""
        return bool(self.phases)
