"""The values that go into `plan()` and come out of it.

They are plain frozen data, so a decision can be compared, printed and tested without a cluster, and whoever
executes a plan needs to know nothing of why it says what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from tfoperator.api.v1.types import ConditionType, ReplicaType, TFJob, TFJobStatus
from tfoperator.controller.accelerators import Accelerator
from tfoperator.controller.gang import GangScheduler, PodGroup
from tfoperator.controller.naming import ObjectName, peer_object_name
from tfoperator.kube.objects import Deployment, Pod, Service

__all__ = [
    "DEFAULT_TENSORBOARD_IMAGE",
    "BoardAction",
    "BoardCreate",
    "BoardDelete",
    "BoardKind",
    "BoardPatch",
    "DeleteReason",
    "ObjectName",
    "Observed",
    "Plan",
    "PlanOptions",
    "PlannedEvent",
    "PodCreate",
    "PodDelete",
    "PodGroupCreate",
    "PodGroupDelete",
    "PodGroupPatch",
    "ServiceCreate",
    "ServiceDelete",
]


DEFAULT_TENSORBOARD_IMAGE = "tensorflow/tensorflow:2.19.0"
"""One that has TensorBoard in it, which from TensorFlow 2.21 on is a package of its own."""


class Observed(msgspec.Struct, frozen=True):
    """What the caches show of one job.

    `job` is defaulted (`tfoperator.api.defaults.default`). `pods`, `services` and `deployments` are those whose
    controller is this job's UID, in any order, terminating ones included. `problems` is what validation has against the
    job (and the lines of `decode_error`), each as `field: message`. `pod_group` is the job's own, and `priorities` are
    those of the PriorityClasses (`gang_size.priorities_of`); both are looked at only where there is a gang scheduler.
    """

    job: TFJob
    pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    problems: tuple[str, ...] = ()
    pod_group: PodGroup | None = None
    priorities: Mapping[str, int] = {}
    deployments: tuple[Deployment, ...] = ()


class PlanOptions(msgspec.Struct, frozen=True):
    """What an administrator chooses for all jobs. Times are seconds.

    `cluster_domain` is appended to the host names in TF_CONFIG (`cluster.local`; empty: the resolver's search path
    is enough, as the Go operator assumes). A replica's n-th restart waits `restart_delay_base * 2**(n-1)` after its
    end, at most `restart_delay_cap`; 0 restarts at once. A pod on a lost node is deleted by force
    `node_lost_margin` after the moment its graceful deletion should have been over. `evaluator_in_cluster` lists
    the evaluators in TF_CONFIG's cluster, which the Go operator does and some training loops object to, unless the
    job says. `accelerators` say, by resource name, what containers that ask for the resource get.
    `default_ps_image` runs the parameter servers of a job that has no template for them; empty, such a job is
    invalid. `default_tensorboard_image` runs TensorBoards that name none. `object_name` names what is made for jobs
    that have nothing yet.
    `gang` schedules the pods of a job together; None leaves each pod to the cluster's scheduler.
    """

    cluster_domain: str = ""
    restart_delay_base: float = 1.0
    restart_delay_cap: float = 300.0
    node_lost_margin: float = 30.0
    evaluator_in_cluster: bool = True
    object_name: ObjectName = peer_object_name
    accelerators: Mapping[str, Accelerator] = {}
    default_ps_image: str = ""
    default_tensorboard_image: str = DEFAULT_TENSORBOARD_IMAGE
    gang: GangScheduler | None = None


class DeleteReason(StrEnum):
    """Why a pod or service is deleted; for logs, metrics and event messages."""

    RESTART = "restart"
    NODE_LOST = "node-lost"
    SCALE_DOWN = "scale-down"
    DUPLICATE = "duplicate"
    SUSPEND = "suspend"
    FINISHED = "job-finished"


class ServiceCreate(msgspec.Struct, frozen=True):
    """A service to create. `body` may share parts with other bodies of the plan: encode it, don't change it."""

    replica_type: ReplicaType
    index: int
    name: str
    body: dict[str, Any]


class PodCreate(msgspec.Struct, frozen=True):
    """A pod to create. `body` may share parts with other bodies of the plan: encode it, don't change it."""

    replica_type: ReplicaType
    index: int
    name: str
    body: dict[str, Any]


class PodDelete(msgspec.Struct, frozen=True):
    """A pod to delete, by name with `uid` as precondition.

    `grace_period_seconds` None means the pod's own; 0 is a forced deletion. `replica_type` and `index` are None for
    a pod of ours whose labels don't say which replica it is.
    """

    name: str
    uid: str
    replica_type: ReplicaType | None
    index: int | None
    grace_period_seconds: int | None
    reason: DeleteReason


class ServiceDelete(msgspec.Struct, frozen=True):
    """A service to delete, by name with `uid` as precondition."""

    name: str
    uid: str
    replica_type: ReplicaType | None
    index: int | None
    reason: DeleteReason


class PodGroupCreate(msgspec.Struct, frozen=True):
    """A PodGroup to create."""

    name: str
    body: dict[str, Any]


class PodGroupPatch(msgspec.Struct, frozen=True):
    """A PodGroup to change by a merge patch, by name with `uid` as precondition."""

    name: str
    uid: str
    change: dict[str, Any]


class PodGroupDelete(msgspec.Struct, frozen=True):
    """A PodGroup to delete, by name with `uid` as precondition."""

    name: str
    uid: str
    reason: DeleteReason


BoardKind = Literal["deployments", "services"]
"""The objects that make a TensorBoard: one of each."""


class BoardCreate(msgspec.Struct, frozen=True):
    """An object of the job's TensorBoard to create."""

    kind: BoardKind
    name: str
    body: dict[str, Any]


class BoardPatch(msgspec.Struct, frozen=True):
    """A merge patch of an object of the job's TensorBoard; its body has the UID and version of what it is meant for."""

    kind: BoardKind
    name: str
    body: dict[str, Any]


class BoardDelete(msgspec.Struct, frozen=True):
    """An object of the job's TensorBoard to delete, by name with `uid` as precondition."""

    kind: BoardKind
    name: str
    uid: str


BoardAction = BoardCreate | BoardPatch | BoardDelete


class PlannedEvent(msgspec.Struct, frozen=True):
    """An event about the job, to be emitted once the plan's status write (if any) has succeeded."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Plan(msgspec.Struct, frozen=True):
    """What to do about a job now. Execute it in the order of the fields.

    1. `delete_job`: the job's time to live is over; delete it (background propagation) and nothing else.
    2. `write_status_first`: `status` must be durable before anything is deleted (it records a restart, a
       suspension or the job's end); if the write fails, stop here and retry.
    3. The PodGroup before its pods, which a gang scheduler would not know what to do with. A service before
       its pod, so that no process starts before its own name can resolve.
    4. `board`: what to do about the job's TensorBoard; if that fails, everything else goes on all the same.
    5. `write_status`: whether `status`, the complete desired status, differs from the observed one in a way worth a
       write. Without it `status` may still carry news (started indexes) that ride along with any other write.
    6. `events`, only after a needed status write has succeeded, so that a retry doesn't repeat them.
    7. `requeue_after`: seconds until time alone changes the decision; None when only an event can.

    `absent` names pods that were there and are gone without our doing. Creations and failures in this plan rest on
    that; a shell that fears a stale cache can look them up live before it acts.
    `transitions` are the conditions that become True with this plan's status.
    """

    status: TFJobStatus
    delete_job: bool = False
    write_status_first: bool = False
    delete_pods: tuple[PodDelete, ...] = ()
    delete_services: tuple[ServiceDelete, ...] = ()
    delete_pod_group: PodGroupDelete | None = None
    create_pod_group: PodGroupCreate | None = None
    patch_pod_group: PodGroupPatch | None = None
    create_services: tuple[ServiceCreate, ...] = ()
    create_pods: tuple[PodCreate, ...] = ()
    board: tuple[BoardAction, ...] = ()
    write_status: bool = False
    events: tuple[PlannedEvent, ...] = ()
    requeue_after: float | None = None
    absent: tuple[str, ...] = ()
    transitions: frozenset[ConditionType] = frozenset()

    @property
    def acts(self) -> bool:
        """Whether anything is created, changed or deleted, the status aside."""
        return bool(
            self.delete_job
            or self.delete_pod_group
            or self.create_pod_group
            or self.patch_pod_group
            or self.delete_pods
            or self.delete_services
            or self.create_services
            or self.create_pods
            or self.board
        )
