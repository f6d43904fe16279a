"""A small world for one job: an API server with pods that live and die, and an operator that carries out plans.

It is deliberately simpler than Kubernetes and deliberately unkind: views are stale, requests get lost, clocks jump.
It keeps its own account of what happened, so that the status can be compared with the truth.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from hack.simulated_objects import SimulatedObjects
from hack.simulated_pods import GRACE, bound, end_state, ended, restarted, started, terminating, with_status
from tests.unit.controller.builders import OPTIONS, ReadablePlan, plan_for
from tfoperator.api.replicas.names import replica_of
from tfoperator.api.replicas.replica_pods import restarted_by_rule, training_end
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import has_condition
from tfoperator.api.v1.parts.progress import ReplicaProgress, TrainingProgress
from tfoperator.api.v1.status import parse_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import PlanOptions
from tfoperator.controller.plan.pod_ends.restart import job_restarts_before
from tfoperator.controller.plan.values.actions import Action, Create, Delete, DeleteReason, Patch, Plan
from tfoperator.controller.plan.values.conditions import is_finished
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.controller.pods.manifests import restarts_together
from tfoperator.kube.views.objects import ObjectMeta, Pod, Service
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
    PodStatus,
)

Replica = tuple[ReplicaType, int]


NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Lost(Exception):
    """A request got no answer, or was refused; the operator gives up this sync and tries again."""


@dataclass(frozen=True)
class View:
    """The content of a cache: the world as it was at one moment."""

    job: TFJob
    pods: tuple[Pod, ...]
    services: tuple[Service, ...]


def _waits(pod: Pod) -> bool:
    """Whether a kubelet waits before it starts the container again."""
    return any(
        status.state is not None and status.state.waiting is not None for status in pod.status.container_statuses
    )


PROXY = ContainerStatus(name="proxy", ready=True, state=ContainerState())


@dataclass
class World(SimulatedObjects):
    """The truth. `losses` counts, per replica, restarts in place and pods that ended or went against our will."""

    options: PlanOptions = OPTIONS
    lost_nodes: set[str] = field(default_factory=set)
    losses: Counter[Replica] = field(default_factory=Counter)
    lost_numbers: set[int] = field(default_factory=set)  # of the restarts of all after which a pod was lost
    drop: set[str] = field(default_factory=set)  # kinds of requests that get lost
    sidecar: bool = False  # whether a container beside `tensorflow` runs in each pod, and never ends by itself
    backs_off: bool = False  # whether kubelets wait before they start a container again
    stacks: str = ""  # who takes stacks: nobody, "prompt", or somebody who never ends
    stacks_taken: datetime = NEVER
    _monotonic: float = 0.0
    _written_at: float = -math.inf  # when the operator last wrote the status
    _charged: set[str] = field(default_factory=set)  # pods (by uid) that `losses` has counted already
    _history: list[View] = field(default_factory=list)
    _seen: int = 0  # the operator's cache is never older than this

    def __post_init__(self) -> None:
        self.changed()

    # The operator

    def look(self, lag: int = 0) -> View:
        """The operator's cache, up to `lag` changes behind, but never behind what it has shown or done before."""
        self._seen = max(self._seen, len(self._history) - 1 - lag)
        return self._history[self._seen]

    def _plan(self, view: View) -> ReadablePlan:
        stacks, age = self.stacks_taken if self.stacks else None, self._monotonic - self._written_at
        observed = Observed(view.job, view.pods, view.services, stacks_taken=stacks, status_age=age)
        return plan_for(observed, self.now, self.options)

    def sync(self, lag: int = 0) -> ReadablePlan:
        """One sync of the operator; requests whose kind is in `drop` get lost, which ends the sync."""
        view = self.look(lag)
        result = self._plan(view)
        self._charge_stall(result, view)
        try:
            self.execute(result, view.job)
        except Lost:
            pass
        return result

    def look_into_pods(self, plan: Plan) -> None:
        if plan.looks.stacks and self.stacks == "prompt":
            self.stacks_taken = self.now

    def _charge_stall(self, result: ReadablePlan, view: View) -> None:
        """Count a loss that the plan causes when it restarts running pods because they have stalled."""
        pods = {pod.metadata.uid: pod for pod in view.pods}
        stalled = [
            pods[deletion.uid]
            for deletion in result.deletions("pods")
            if deletion.reason is DeleteReason.RESTART and result.is_true(ConditionType.STALLED)
        ]
        policy = self.job.spec.run_policy
        for pod in stalled[:1] if restarts_together(self.job) else stalled:
            if self._trains(pod) and pod.metadata.deletion_timestamp is None:
                assert policy.on_stall == "Restart", "what runs is restarted, and nobody asked for it"
                self._charge(pod)

    def write_status(self, plan: Plan, seen: TFJob) -> None:
        if seen.metadata.resource_version != self.job.metadata.resource_version:
            raise Lost("conflict")
        super().write_status(plan, seen)
        self._written_at = self._monotonic
        self._put_job(self.job)
        self.changed()
        self._saw_it()

    def before_request(self, verb: str) -> None:
        if verb in self.drop:
            raise Lost(verb)

    def _saw_it(self) -> None:
        """Expectations: the operator doesn't plan again before its cache shows what it did."""
        self._seen = len(self._history) - 1

    def refuses(self, creation: Create) -> bool:
        """The operator may not have heard of what it made."""
        there = creation.name in (self.pods if creation.kind == "pods" else self.services)
        if creation.kind == "pods" and not there:
            self.lost_nodes.discard(creation.name)
        return there

    def take_away(self, kind: str, name: str, deletion: Delete) -> None:
        if kind != "pods":
            super().take_away(kind, name, deletion)
            return
        if deletion.resource_version not in ("", self.pods[name].metadata.resource_version):
            return  # 409
        self._charged.add(deletion.uid)  # our own doing is no loss
        self.remove_pod(name, grace=deletion.grace_period_seconds)

    def carry_out(self, action: Action) -> None:
        """A patch of a pod that has gone or changed is refused."""
        if not isinstance(action, Patch):
            super().carry_out(action)
        elif (pod := self.pods.get(action.name)) is not None:
            version = action.body["metadata"]["resourceVersion"]
            if (pod.metadata.uid, pod.metadata.resource_version) == (action.uid, version):
                super().carry_out(action)
                self.put(self.pods[action.name])
        self._saw_it()

    def born(self, metadata: ObjectMeta) -> ObjectMeta:
        return replace(super().born(metadata), resource_version="1")

    # The user

    def edit(self, **spec: Any) -> None:
        meta = replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        self._put_job(replace(self.job, metadata=meta, spec=replace(self.job.spec, **spec)))
        self.changed()

    def edit_policy(self, **policy: Any) -> None:
        self.edit(run_policy=replace(self.job.spec.run_policy, **policy))

    def suspend(self, on: bool) -> None:
        self.edit_policy(suspend=on)

    def scale(self, replica_type: str, replicas: int) -> None:
        specs = self.job.spec.tf_replica_specs
        self.edit(tf_replica_specs={**specs, replica_type: replace(specs[replica_type], replicas=replicas)})

    def kill(self, name: str) -> None:
        """Somebody else deletes a pod."""
        if self.pods[name].metadata.deletion_timestamp is None:
            self._take(self.pods[name])
            self.remove_pod(name)

    def vanish(self, name: str) -> None:
        """Delete a pod as somebody else does; the operator does not see it go."""
        if self.pods[name].metadata.deletion_timestamp is None:
            self._take(self.pods[name])
        del self.pods[name]
        self.changed()

    def delete_service(self, name: str) -> None:
        del self.services[name]
        self.changed()

    def report(self, behind: str = "") -> None:
        """The job reports progress now; the replica `behind` is some steps back."""
        at = self._second()
        late = (ReplicaProgress(behind, 5, at),) if behind else ()
        progress = TrainingProgress(step=10, percentage=10, last_updated_time=at, behind=late)
        self._put_job(replace(self.job, status=replace(self.job.status, progress=progress)))
        self.changed()

    # The kubelet, the scheduler, the node controller

    def remove_pod(self, name: str, grace: int | None = None) -> None:
        """Deletion as the API server does it: at once for what is finished, forced or not started."""
        pod = self.pods[name]
        seconds = GRACE if grace is None else grace
        if seconds == 0 or pod.status.phase in ("Succeeded", "Failed"):
            del self.pods[name]
            self.changed()
        else:
            self.put(terminating(pod, self._second() + timedelta(seconds=seconds), seconds))

    def schedule(self, name: str) -> None:
        pod = self.pods[name]
        if pod.status.phase == "Pending" and not pod.spec.node_name:
            self.put(bound(pod))

    def run(self, name: str) -> None:
        self.schedule(name)
        pod = self.pods[name]
        if _waits(pod) and pod.metadata.deletion_timestamp is None and name not in self.lost_nodes:
            self._charged.discard(pod.metadata.uid)
            self.put(restarted(pod, self._second(), pod.status.container_statuses[0].last_state))
        elif self.pods[name].status.phase == "Pending" and name not in self.lost_nodes:
            self.put(started(self.pods[name], self._second(), *([PROXY] if self.sidecar else ())))

    def exit(self, name: str, code: int) -> None:
        """End the process of a running pod; the kubelet restarts it in place if the pod's policy allows it."""
        pod = self.pods[name]
        if not self._trains(pod) or name in self.lost_nodes:
            return
        policy = self.policy_of(pod)
        dying = pod.metadata.deletion_timestamp is not None
        again = policy == "Always" or (policy == "OnFailure" and code != 0) or restarted_by_rule(pod, code)
        if not dying and again:
            end = end_state(pod, code, self._second())
            if not self.backs_off:
                self.losses[self.replica(pod)] += 1
                self.put(restarted(pod, self._second(), end))
                return
            self._charge(pod)
            state = ContainerState(waiting=ContainerStateWaiting("CrashLoopBackOff"))
            old, *others = pod.status.container_statuses
            waits = replace(old, ready=False, state=state, last_state=end)
            self.put(with_status(pod, container_statuses=(waits, *others)))
            return
        if code != 0 and not dying:
            self._charge(pod)
        self._end(pod, code)

    def _end(self, pod: Pod, code: int) -> None:
        runs_on = self.sidecar and pod.metadata.deletion_timestamp is None and self.policy_of(pod) != "Always"
        self.put(ended(pod, code, self._second(), runs_on=runs_on))

    def succeed(self, name: str) -> None:
        """The process of a running pod does its work, and the pod ends whatever its restart policy."""
        pod = self.pods[name]
        if self._trains(pod) and pod.metadata.deletion_timestamp is None:
            self._end(pod, 0)

    def expire(self, name: str) -> None:
        """The kubelet ends a pod whose deadline is over, which is soon after it was set."""
        pod = self.pods[name]
        on_a_node = pod.spec.node_name and name not in self.lost_nodes
        if pod.spec.active_deadline_seconds is not None and on_a_node and pod.status.phase in ("Pending", "Running"):
            self.put(with_status(pod, phase="Failed", reason="DeadlineExceeded"))

    def evict(self, name: str) -> None:
        pod = self.pods[name]
        if self._may_be_lost(pod):
            self._charge(pod)
            self.put(with_status(pod, phase="Failed", reason="Evicted"))

    def gone(self, name: str) -> None:
        """The kubelet finishes a deletion."""
        if self.pods[name].metadata.deletion_timestamp is not None and name not in self.lost_nodes:
            del self.pods[name]
            self.changed()

    def lose_node(self, name: str) -> None:
        """The pod's node is lost: the pod is marked as not ready and deleted, and no kubelet ever confirms."""
        pod = self.pods[name]
        if self._may_be_lost(pod):
            self._charge(pod)
            self.lost_nodes.add(name)
            lost = PodCondition("DisruptionTarget", "True", "DeletionByTaintManager")
            marked = with_status(pod, conditions=(lost, PodCondition("Ready", "False")))
            self.put(terminating(marked, self._second() + timedelta(seconds=GRACE)))

    def _trains(self, pod: Pod) -> bool:
        return pod.status.phase == "Running" and training_end(pod) is None and not _waits(pod)

    def _may_be_lost(self, pod: Pod) -> bool:
        alive = pod.status.phase == "Pending" or self._trains(pod)
        return alive and pod.metadata.deletion_timestamp is None

    def duplicate(self, name: str) -> None:
        """A second pod with the labels of another, as adoption can bring about."""
        pod = self.pods[name]
        twin = f"{name}-twin"
        if twin not in self.pods:
            self.lost_nodes.discard(twin)
            meta = replace(pod.metadata, name=twin)
            self.pods[twin] = Pod(metadata=self.born(meta), spec=pod.spec, status=PodStatus(phase="Pending"))
            self.changed()

    # Looking at the truth

    @property
    def finished(self) -> bool:
        return is_finished(self.job.status.conditions)

    def holds(self, condition: ConditionType) -> bool:
        return has_condition(self.job, condition)

    def policy_of(self, pod: Pod) -> str:
        if restarts_together(self.job):
            return "Never"
        spec = self.job.spec.tf_replica_specs.get(self.replica(pod)[0])
        return (spec.restart_policy if spec else None) or "Never"

    def replica(self, pod: Pod) -> Replica:
        return replica_of(pod.metadata.labels)

    def completed(self, replica_type: str) -> frozenset[int]:
        """The indexes that the status remembers as completed."""
        status = self.job.status.replica_statuses.get(replica_type)
        return parse_indexes(status.completed_indexes) if status else frozenset()

    def failed(self, replica_type: str) -> frozenset[int]:
        """The indexes that the status remembers as failed for good."""
        status = self.job.status.replica_statuses.get(replica_type)
        return parse_indexes(status.failed_indexes) if status else frozenset()

    def counted(self) -> Counter[Replica]:
        """The restarts that the status records."""
        return Counter(
            {
                (ReplicaType(key), int(index)): count
                for key, status in self.job.status.replica_statuses.items()
                for index, count in status.restart_counts.items()
            }
        )

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self._monotonic += max(seconds, 0.0)

    def _take(self, pod: Pod) -> None:
        """A pod is taken away: a loss, unless its replica is known to have finished."""
        replica_type, index = self.replica(pod)
        if index not in self.completed(replica_type):
            self._charge(pod)

    def _charge(self, pod: Pod) -> None:
        if pod.metadata.uid not in self._charged:
            self._charged.add(pod.metadata.uid)
            self.losses[self.replica(pod)] += 1
            self.lost_numbers.add(job_restarts_before(pod))

    def put(self, pod: Pod) -> None:
        version = str(int(pod.metadata.resource_version) + 1)
        super().put(replace(pod, metadata=replace(pod.metadata, resource_version=version)))

    def _second(self) -> datetime:
        return self.now.replace(microsecond=0)

    def _put_job(self, job: TFJob) -> None:
        version = str(int(self.job.metadata.resource_version or 0) + 1)
        self.job = replace(job, metadata=replace(job.metadata, resource_version=version))

    def changed(self) -> None:
        self._history.append(View(self.job, tuple(self.pods.values()), tuple(self.services.values())))
