"""The output of `plan()`: a `Plan`, whose phases hold the actions to carry out.

They are plain frozen data, so a decision can be compared, printed and tested without a cluster, and the code that
executes a plan does not need the reasons for it. The rules of execution that depend on the object (a service before its
pod, a PodGroup before the pods, a TensorBoard never fails the job) are members of actions and phases, too.
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
    """The reason for stopping a pod; the value of its annotation `ANNOTATION_STOPPED`."""

    SUCCEEDED = "job-succeeded"
    FAILED = "job-failed"
    REPLICA_ENDED = STOPPED_WITH_REPLICA


class _ObjectAction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The common part of all actions: the object that they concern.

    `replica` is None for an object that belongs to no replica, or whose labels don't name one. `required` determines
    the effect of a failure: the job can't go on without a required object, so a refusal by the API server for good
    makes the job invalid. A failure with any other object is reported once, and retried while the job goes on.
    """

    kind: ObjectKind
    name: str
    replica: ReplicaId | None = None
    required: bool = True


class Create(_ObjectAction, frozen=True, kw_only=True, gc=False):
    """An object to create.

    `body` may share parts with other bodies of the plan: encode it, don't change it. `spec_field` is the field of the
    job that the object is made from, which is to blame if the API server refuses the object. `replacement`: a pod of
    the same replica was there before.
    """

    body: dict[str, Any]
    spec_field: str
    replacement: bool = False


class Patch(_ObjectAction, frozen=True, kw_only=True, gc=False):
    """A merge patch of an object, with `uid` as precondition: it was made for that object, not for a successor.

    A `strategic` patch is Kubernetes' strategic merge patch, which built-in kinds have.
    """

    uid: str
    body: dict[str, Any]
    spec_field: str
    strategic: bool = False


class Delete(_ObjectAction, frozen=True, kw_only=True, gc=False):
    """An object to delete, with `uid` as precondition.

    `grace_period_seconds` None means the object's own; 0 is a forced deletion. With `resource_version` the object is
    deleted only in the state that was seen: if it has changed since, another plan decides.
    """

    uid: str
    reason: DeleteReason
    resource_version: str = ""
    grace_period_seconds: int | None = None


Action = Create | Patch | Delete


class Looks(msgspec.Struct, frozen=True):
    """Pods to look into. Looking changes no object; when it is done, the job is planned again.

    Actions don't wait for it. The logs of `keep` are copied into the archive, so that a later plan can delete these
    pods. The newest lines of the logs of `read` are looked up one pod after the other, up to a line that is newer than
    `newer_than`. The stacks of all threads of `stacks` are kept.
    """

    keep: tuple[Pod, ...] = ()
    read: tuple[Pod, ...] = ()
    newer_than: datetime | None = None
    stacks: tuple[Pod, ...] = ()


NO_LOOKS = Looks()


class PhaseName(StrEnum):
    """The phases of a plan, in the order of their execution.

    A gang scheduler can't handle pods whose PodGroup does not exist, and a process can't start before its own name
    resolves: PodGroups and services come first.
    """

    DELETIONS = "deletions"
    STOPS = "stops"
    POD_GROUP = "pod-group"
    NETWORK = "network"
    REPLICAS = "replicas"
    TENSORBOARD = "tensorboard"


class Phase(msgspec.Struct, frozen=True):
    """Actions that may be carried out in parallel, except the actions of one chain.

    The actions of a chain are carried out in their order, up to the first creation that leaves nothing in place, or the
    first deletion that fails.
    `slow_start`: 1, 2, 4 ... chains at a time, and none after a failure, since most failures of creations (a quota, an
    admission webhook that is down) hit all chains alike. The phase is skipped if a creation of a phase in `needs` left
    nothing in place.
    """

    name: PhaseName
    chains: tuple[tuple[Action, ...], ...]
    slow_start: bool = False
    needs: frozenset[PhaseName] = frozenset()

    @property
    def actions(self) -> Iterator[Action]:
        """Every action, chain by chain."""
        return chain.from_iterable(self.chains)


class PlannedEvent(msgspec.Struct, frozen=True):
    """An event about the job, emitted once the plan's status write (if any) has succeeded.

    `reason` is plain text: otherwise the memory of events would hold objects that the garbage collector has to visit.
    """

    type: EventType
    reason: str
    message: str

    @classmethod
    def of(cls, reason: JobReason, message: str) -> Self:
        """Return the event with this reason. Raises TypeError for a reason that conditions alone have."""
        return cls(reason.event_type, reason.value, message)


class Plan(msgspec.Struct, frozen=True):
    """The actions and the status for a job now.

    1. `write_status_first`: `status` must be durable before anything is changed (it records a restart, a
       suspension or the job's end); if the write fails, stop here and retry.
    2. `looks`, then `phases`, in their order.
    3. `write_status`: whether `status`, the complete desired status, differs from the observed status in a way that is
       worth a write. Without it `status` may still have news (started indexes) for any other write to include.
    4. `events`, only after a needed status write has succeeded, so that a retry doesn't repeat them.
    5. `requeue_after`: seconds until time alone changes the decision; None when only an event can.

    `absent` names pods that were there and are gone without our doing. Creations and counts in this plan depend on
    that; if the cache may be stale, the caller can look these pods up before it acts.
    `transitions` are the conditions that become True with this plan's status.
    """

    status: TFJobStatus
    phases: tuple[Phase, ...] = ()
    looks: Looks = NO_LOOKS
    write_status_first: bool = False
    write_status: bool = False
    events: tuple[PlannedEvent, ...] = ()
    requeue_after: float | None = None
    absent: tuple[str, ...] = ()
    transitions: frozenset[ConditionType] = frozenset()

    @property
    def actions(self) -> Iterator[Action]:
        """Every action, in the order of the phases."""
        return chain.from_iterable(chain.from_iterable(phase.chains for phase in self.phases))

    @property
    def changes_objects(self) -> bool:
        """Whether anything is created, changed or deleted, the status aside."""
        return bool(self.phases)
