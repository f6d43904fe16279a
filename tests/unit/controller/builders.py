"""Jobs, pods and services for tests of the pure part of the controller."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from hack.simulated_objects import NOW, TEMPLATE, simulated_job
from tests.support.plan_options import plan_options
from tfoperator.api.replicas.names import (
    ANNOTATION_DISRUPTIONS,
    ANNOTATION_JOB_RESTARTS,
    ANNOTATION_RESTARTS,
    ANNOTATION_STOPPED,
    job_labels,
    object_name,
    replica_labels,
)
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import JobCondition, TFJobStatus, all_conditions, find_condition
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import PlanOptions
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.plan.decide import plan
from tfoperator.controller.plan.values.actions import Action, Create, Delete, Patch, Plan, ReplicaId
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.kube.views.objects import ObjectMeta, OwnerReference, Pod, PodSpec, Service
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
    PodStatus,
)

OPTIONS = plan_options()


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def make_job(
    replicas: Mapping[str, Any],
    *,
    status: TFJobStatus | None = None,
    generation: int = 1,
    deleted: bool = False,
    name: str = "mnist",
    **spec: Any,
) -> TFJob:
    """A defaulted job. A replica spec may be just its number of replicas; it gets a valid template."""
    filled = {
        key: {"template": TEMPLATE} | ({"replicas": value} if isinstance(value, int) else dict(value))
        for key, value in replicas.items()
    }
    going = {"deletionTimestamp": NOW.isoformat()} if deleted else {}
    job = simulated_job(name, {"tfReplicaSpecs": filled, **spec}, generation=generation, **going)
    assert not job.decode_error, job.decode_error
    return job if status is None else with_status(job, status)


def with_status(job: TFJob, status: TFJobStatus) -> TFJob:
    return msgspec.structs.replace(job, status=status)


def started(job: TFJob, **changes: Any) -> TFJob:
    """The job as it is after its first sync."""
    status = planned(job).status
    return with_status(job, msgspec.structs.replace(status, **changes))


def terminated(
    exit_code: int,
    *,
    finished: datetime | None = NOW,
    started: datetime | None = None,
    reason: str = "",
    container: str = "tensorflow",
) -> ContainerStatus:
    state = ContainerState(terminated=ContainerStateTerminated(exit_code, reason, "", finished, started))
    return ContainerStatus(name=container, state=state)


def waiting(reason: str, message: str = "", *, restarts: int = 0, container: str = "tensorflow") -> ContainerStatus:
    state = ContainerState(waiting=ContainerStateWaiting(reason, message))
    return ContainerStatus(name=container, restart_count=restarts, state=state)


def make_pod(
    replica: str,
    phase: str = "Running",
    *,
    exit_code: int | None = None,
    finished: datetime | None = NOW,
    restarts_before: int = 0,
    job_restarts: int = 0,
    disruptions_before: int = 0,
    in_place: int = 0,
    ready: bool = True,
    deleted: datetime | None = None,
    grace: int = 30,
    reason: str = "",
    message: str = "",
    containers: tuple[ContainerStatus, ...] | None = None,
    init_containers: tuple[ContainerStatus, ...] = (),
    conditions: tuple[PodCondition, ...] = (),
    node: str = "",
    deadline: int | None = None,
    restart_policy: str = "",
    stopped: str = "",
    subdomain: str = "",
    created: datetime | None = NOW,
    start: datetime | None = NOW,
    uid: str = "",
    name: str = "",
    job: str = "mnist",
    labels: dict[str, str] | None = None,
) -> Pod:
    """A pod of a replica such as `Worker-1`. `deleted` is when its deletion was asked for."""
    kind, _, index = replica.rpartition("-")
    replica_type = ReplicaType(kind)
    counts = {ANNOTATION_RESTARTS: restarts_before, ANNOTATION_JOB_RESTARTS: job_restarts}
    counts[ANNOTATION_DISRUPTIONS] = disruptions_before
    annotations = {key: str(value) for key, value in {**counts, ANNOTATION_STOPPED: stopped}.items() if value}
    own_name = name or object_name(job, replica_type, int(index))
    if created is NOW and start is not None and start < created:
        created = start
    if containers is None:
        if exit_code is not None:
            containers = (terminated(exit_code, finished=finished),)
        elif phase == "Running":
            containers = (ContainerStatus(name="tensorflow", ready=ready, restart_count=in_place),)
        else:
            containers = ()
    return Pod(
        metadata=ObjectMeta(
            name=own_name,
            namespace="ns",
            uid=uid or own_name + "-uid",
            creation_timestamp=created,
            deletion_timestamp=None if deleted is None else deleted + timedelta(seconds=grace),
            deletion_grace_period_seconds=None if deleted is None else grace,
            labels=replica_labels(job, replica_type, int(index), is_master=False) if labels is None else labels,
            annotations=annotations,
            owner_references=(OwnerReference("kubeflow.org/v1", "TFJob", job, "job-uid", True, True),),
        ),
        spec=PodSpec(node, restart_policy, deadline, subdomain),
        status=PodStatus(
            phase=phase,
            reason=reason,
            message=message,
            start_time=start,
            conditions=conditions,
            init_container_statuses=init_containers,
            container_statuses=containers,
        ),
    )


def pods_by_letter(workers: str = "", **others: str) -> list[Pod]:
    """Pods of `workers` and `others` by letter; a dash is no pod."""
    phases = {"S": "Succeeded", "F": "Failed", "R": "Running", "N": "Running", "P": "Pending"}  # N is not ready
    codes = {"S": 0, "F": 1}
    return [
        make_pod(f"{kind}-{index}", phases[letter], exit_code=codes.get(letter), ready=letter != "N")
        for kind, letters in {"Worker": workers, **others}.items()
        for index, letter in enumerate(letters)
        if letter != "-"
    ]


def make_service(
    replica: str, *, name: str = "", uid: str = "", created: datetime = NOW, deleted: datetime | None = None
) -> Service:
    kind, _, index = replica.rpartition("-")
    replica_type = ReplicaType(kind)
    own_name = name or object_name("mnist", replica_type, int(index))
    labels = replica_labels("mnist", replica_type, int(index), is_master=False)
    return _service(own_name, labels, uid=uid, creation_timestamp=created, deletion_timestamp=deleted)


def job_service(*, name: str = "mnist", deleted: datetime | None = None) -> Service:
    """The one service of a job whose network is PerJob."""
    return _service(name, job_labels("mnist"), creation_timestamp=NOW, deletion_timestamp=deleted)


def _service(name: str, labels: dict[str, str], uid: str = "", **meta: Any) -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid or name + "-service-uid", labels=labels, **meta)
    )


def services_of(job: TFJob) -> tuple[Service, ...]:
    """A service for every replica of the job."""
    return tuple(
        make_service(f"{key}-{index}")
        for key, spec in job.spec.tf_replica_specs.items()
        if spec is not None
        for index in range(spec.replicas or 0)
    )


class ReadablePlan(Plan, frozen=True):
    """A plan, and what tests ask about one."""

    @property
    def acts(self) -> bool:
        """Whether carrying the plan out would change anything."""
        return bool(self.changes_objects or self.write_status or self.events)

    @property
    def created_pods(self) -> list[str]:
        return [label(creation.replica) for creation in self.creations("pods")]

    @property
    def deleted_pods(self) -> list[str]:
        return [label(deletion.replica) for deletion in self.deletions("pods")]

    @property
    def stops(self) -> list[Patch]:
        return [action for action in self.actions if isinstance(action, Patch) and action.kind == "pods"]

    @property
    def stopped_pods(self) -> list[str]:
        return [label(stop.replica) for stop in self.stops]

    @property
    def deletes_job(self) -> bool:
        return any(isinstance(action, Delete) and action.kind == "tfjobs" for action in self.actions)

    @property
    def tensorboard_actions(self) -> tuple[Action, ...]:
        return tuple(action for action in self.actions if not action.required and action.kind != "pods")

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]

    def creations(self, kind: OwnedKind) -> list[Create]:
        """Return what the plan creates of a kind, but for its TensorBoard."""
        return [
            action for action in self.actions if isinstance(action, Create) and action.kind == kind and action.required
        ]

    def deletions(self, kind: OwnedKind) -> list[Delete]:
        """Return what the plan deletes of a kind, but for its TensorBoard."""
        return [
            action for action in self.actions if isinstance(action, Delete) and action.kind == kind and action.required
        ]

    def condition(self, condition_type: ConditionType) -> JobCondition:
        """The condition of this type, which must be there."""
        condition = find_condition(all_conditions(self.status), condition_type)
        assert condition is not None, f"no condition {condition_type}"
        return condition

    def has_condition(self, condition_type: ConditionType) -> bool:
        return find_condition(all_conditions(self.status), condition_type) is not None

    def is_true(self, condition_type: ConditionType) -> bool:
        return self.has_condition(condition_type) and self.condition(condition_type).status == "True"


def plan_for(observed: Observed, now: datetime = NOW, options: PlanOptions = OPTIONS) -> ReadablePlan:
    result = plan(observed, now, options)
    check_reasons(observed.job.status, result.status)
    return ReadablePlan(**msgspec.structs.asdict(result))


def check_reasons(before: TFJobStatus, status: TFJobStatus) -> None:
    """Each condition that a plan sets has a reason whose row has the condition; Admitted has Kueue's words, too."""
    for new in set(all_conditions(status)) - set(all_conditions(before)):
        if new.reason in {own.word for own in ConditionType(new.type).traits.own_reasons}:
            continue
        if new.type != ConditionType.ADMITTED or new.reason in set(JobReason):
            traits = JobReason(new.reason).traits
            assert new.type in traits.conditions, f"api/v1/reasons.py: the row of {new.reason} lacks {new.type}"


def planned(
    job: TFJob,
    *pods: Pod,
    services: tuple[Service, ...] | None = None,
    problems: tuple[str, ...] = (),
    now: datetime = NOW,
    options: PlanOptions = OPTIONS,
) -> ReadablePlan:
    """The plan for a job that has all its services, if none are given."""
    return plan_for(Observed(job, pods, services_of(job) if services is None else services, problems), now, options)


def label(replica: ReplicaId | None) -> str:
    return f"{replica[0]}-{replica[1]}"
