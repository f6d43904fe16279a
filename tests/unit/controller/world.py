"""A small world for one job: an API server with pods that live and die, and an operator that carries out plans.

It is deliberately simpler than Kubernetes and deliberately unkind: views are stale, requests get lost, clocks jump.
It keeps its own account of what happened, so that what the status says can be compared with the truth.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tests.unit.controller.builders import NOW, OPTIONS
from tfoperator.api.indexes import parse_indexes
from tfoperator.api.names import replica_of
from tfoperator.api.v1.types import ConditionType, ReplicaType, TFJob, TFJobStatus
from tfoperator.controller.conditions import find_condition, is_finished
from tfoperator.controller.plan import Observed, Plan, PlanOptions, plan
from tfoperator.controller.status_patch import status_patch
from tfoperator.kube.objects import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Service,
)

GRACE = 30
Replica = tuple[ReplicaType, int]


class Lost(Exception):
    """A request got no answer, or was refused; the operator gives up this sync and tries again."""


@dataclass(frozen=True)
class View:
    """What a cache may show: the world as it was at one moment."""

    job: TFJob
    pods: tuple[Pod, ...]
    services: tuple[Service, ...]


@dataclass
class World:
    """The truth. `losses` counts, per replica, restarts in place and pods that ended or went against our will."""

    job: TFJob
    options: PlanOptions = OPTIONS
    now: datetime = NOW
    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    lost_nodes: set[str] = field(default_factory=set)
    losses: Counter[Replica] = field(default_factory=Counter)
    job_deleted: bool = False
    drop: set[str] = field(default_factory=set)  # kinds of requests that get lost
    _uids: Any = field(default_factory=itertools.count)
    _charged: set[str] = field(default_factory=set)  # pods (by uid) that `losses` has counted already
    _history: list[View] = field(default_factory=list)
    _seen: int = 0  # the operator's cache is never older than this

    def __post_init__(self) -> None:
        self._changed()

    # The operator

    def look(self, lag: int = 0) -> View:
        """The operator's cache, up to `lag` changes behind, but never behind what it has shown or done before."""
        self._seen = max(self._seen, len(self._history) - 1 - lag)
        return self._history[self._seen]

    def plan(self, lag: int = 0) -> Plan:
        view = self.look(lag)
        return plan(Observed(view.job, view.pods, view.services), self.now, self.options)

    def sync(self, lag: int = 0) -> Plan:
        """One sync of the operator; requests whose kind is in `drop` get lost, which ends the sync."""
        view = self.look(lag)
        result = plan(Observed(view.job, view.pods, view.services), self.now, self.options)
        try:
            self._execute(result, view)
        except Lost:
            pass
        return result

    def _execute(self, result: Plan, view: View) -> None:
        if result.delete_job:
            self._request("delete")
            self.job_deleted = True
            return
        if result.write_status_first:
            self._write_status(result.status, view)
        for deletion in result.delete_pods:
            self._request("delete")
            if deletion.name in self.pods and self.pods[deletion.name].metadata.uid == deletion.uid:
                self._charged.add(deletion.uid)  # our own doing is no loss
                self.remove_pod(deletion.name, grace=deletion.grace_period_seconds)
                self._acted()
        for service in result.delete_services:
            self._request("delete")
            if self.services.pop(service.name, None) is not None:
                self._acted()
        for creation in result.create_services:
            self._request("create")
            if creation.name not in self.services:
                meta = msgspec.convert(creation.body["metadata"], ObjectMeta)
                self.services[creation.name] = Service(metadata=self._born(meta))
                self._acted()
        for pod in result.create_pods:
            self._request("create")
            if pod.name not in self.pods:
                meta = msgspec.convert(pod.body["metadata"], ObjectMeta)
                self.lost_nodes.discard(pod.name)
                self.pods[pod.name] = Pod(
                    metadata=self._born(meta), spec=PodSpec("node"), status=PodStatus(phase="Pending")
                )
                self._acted()
        if result.write_status and not result.write_status_first:
            self._write_status(result.status, view)

    def _write_status(self, status: TFJobStatus, view: View) -> None:
        self._request("status")
        if view.job.metadata.resource_version != self.job.metadata.resource_version:
            raise Lost("conflict")
        patch = status_patch(view.job.status, status)
        assert patch is not None, "a status to write must differ"
        merged = merge(msgspec.to_builtins(self.job.status), patch["status"])
        new = msgspec.convert(merged, TFJobStatus)
        assert new == status, "the patch must lead to the planned status"
        self._put_job(msgspec.structs.replace(self.job, status=new))
        self._acted()

    def _request(self, kind: str) -> None:
        if kind in self.drop:
            raise Lost(kind)

    def _acted(self) -> None:
        """Expectations: the operator doesn't plan again before its cache shows what it did."""
        self._changed()
        self._seen = len(self._history) - 1

    # The user

    def edit(self, **spec: Any) -> None:
        meta = msgspec.structs.replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        self._put_job(
            msgspec.structs.replace(self.job, metadata=meta, spec=msgspec.structs.replace(self.job.spec, **spec))
        )
        self._changed()

    def suspend(self, on: bool) -> None:
        policy = self.job.spec.run_policy
        assert policy is not None
        self.edit(run_policy=msgspec.structs.replace(policy, suspend=on))

    def scale(self, replica_type: str, replicas: int) -> None:
        specs = dict(self.job.spec.tf_replica_specs)
        spec = specs[replica_type]
        assert spec is not None
        specs[replica_type] = msgspec.structs.replace(spec, replicas=replicas)
        self.edit(tf_replica_specs=specs)

    def kill(self, name: str) -> None:
        """Somebody else deletes a pod."""
        if self.pods[name].metadata.deletion_timestamp is None:
            self._take(self.pods[name])
            self.remove_pod(name)

    def vanish(self, name: str) -> None:
        """Somebody else deletes a pod, and nobody sees it go."""
        if self.pods[name].metadata.deletion_timestamp is None:
            self._take(self.pods[name])
        del self.pods[name]
        self._changed()

    def delete_service(self, name: str) -> None:
        del self.services[name]
        self._changed()

    # The kubelet, the scheduler, the node controller

    def remove_pod(self, name: str, grace: int | None = None) -> None:
        """Deletion as the API server does it: at once for what is finished, forced or not started."""
        pod = self.pods[name]
        seconds = GRACE if grace is None else grace
        if seconds == 0 or pod.status.phase in ("Succeeded", "Failed"):
            del self.pods[name]
        else:
            self._update(
                pod,
                meta={
                    "deletion_timestamp": self._second() + timedelta(seconds=seconds),
                    "deletion_grace_period_seconds": seconds,
                },
            )
        self._changed()

    def run(self, name: str) -> None:
        if self.pods[name].status.phase == "Pending" and name not in self.lost_nodes:
            ready = (ContainerStatus(name="tensorflow", ready=True),)
            self._update(self.pods[name], phase="Running", start_time=self._second(), container_statuses=ready)

    def exit(self, name: str, code: int) -> None:
        """The process of a running pod ends; the kubelet restarts it in place if the pod's policy says so."""
        pod = self.pods[name]
        if pod.status.phase != "Running" or name in self.lost_nodes:
            return
        policy = self.policy_of(pod)
        dying = pod.metadata.deletion_timestamp is not None
        if not dying and (policy == "Always" or (policy == "OnFailure" and code != 0)):
            status = pod.status.container_statuses[0]
            again = msgspec.structs.replace(status, restart_count=status.restart_count + 1)
            self.losses[self.replica(pod)] += 1
            self._update(pod, container_statuses=(again,))
            return
        if code != 0 and not dying:
            self._charge(pod)
        self._end(pod, code)

    def _end(self, pod: Pod, code: int) -> None:
        state = ContainerState(terminated=ContainerStateTerminated(code, "", "", self._second()))
        old = pod.status.container_statuses[0]
        self._update(
            pod,
            phase="Failed" if code else "Succeeded",
            container_statuses=(msgspec.structs.replace(old, ready=False, state=state),),
        )

    def succeed(self, name: str) -> None:
        """The process of a running pod does its work, and the pod ends whatever its restart policy."""
        pod = self.pods[name]
        if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None:
            self._end(pod, 0)

    def evict(self, name: str) -> None:
        pod = self.pods[name]
        if pod.status.phase in ("Pending", "Running") and pod.metadata.deletion_timestamp is None:
            self._charge(pod)
            self._update(pod, phase="Failed", reason="Evicted")

    def gone(self, name: str) -> None:
        """The kubelet finishes a deletion."""
        if self.pods[name].metadata.deletion_timestamp is not None and name not in self.lost_nodes:
            del self.pods[name]
            self._changed()

    def lose_node(self, name: str) -> None:
        """The pod's node is lost: the taint manager deletes the pod, and no kubelet ever confirms."""
        pod = self.pods[name]
        if pod.metadata.deletion_timestamp is None and pod.status.phase in ("Pending", "Running"):
            self._charge(pod)
            self.lost_nodes.add(name)
            lost = PodCondition("DisruptionTarget", "True", "DeletionByTaintManager")
            self._update(
                pod,
                meta={
                    "deletion_timestamp": self._second() + timedelta(seconds=GRACE),
                    "deletion_grace_period_seconds": GRACE,
                },
                conditions=(lost,),
            )

    def duplicate(self, name: str) -> None:
        """A second pod with the labels of another, as adoption can bring about."""
        pod = self.pods[name]
        twin = f"{name}-twin"
        if twin not in self.pods:
            meta = msgspec.structs.replace(pod.metadata, name=twin)
            self.pods[twin] = Pod(metadata=self._born(meta), spec=pod.spec, status=PodStatus(phase="Pending"))
            self._changed()

    # Looking at the truth

    @property
    def finished(self) -> bool:
        return is_finished(self.job.status.conditions)

    def holds(self, condition: ConditionType) -> bool:
        found = find_condition(self.job.status.conditions, condition)
        return found is not None and found.status == "True"

    def policy_of(self, pod: Pod) -> str:
        spec = self.job.spec.tf_replica_specs.get(self.replica(pod)[0])
        return (spec.restart_policy if spec else None) or "Never"

    def replica(self, pod: Pod) -> Replica:
        replica = replica_of(pod.metadata.labels)
        assert replica is not None
        return replica

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

    def _take(self, pod: Pod) -> None:
        """A pod is taken away: a loss, unless its replica is known to have finished."""
        replica_type, index = self.replica(pod)
        status = self.job.status.replica_statuses.get(replica_type)
        if status is None or index not in parse_indexes(status.completed_indexes):
            self._charge(pod)

    def _charge(self, pod: Pod) -> None:
        if pod.metadata.uid not in self._charged:
            self._charged.add(pod.metadata.uid)
            self.losses[self.replica(pod)] += 1

    def _update(self, pod: Pod, *, meta: dict[str, Any] | None = None, **status: Any) -> None:
        self.pods[pod.metadata.name] = Pod(
            metadata=msgspec.structs.replace(pod.metadata, **(meta or {})),
            spec=pod.spec,
            status=msgspec.structs.replace(pod.status, **status),
        )
        self._changed()

    def _born(self, meta: ObjectMeta) -> ObjectMeta:
        return msgspec.structs.replace(meta, uid=f"uid-{next(self._uids)}", creation_timestamp=self._second())

    def _second(self) -> datetime:
        return self.now.replace(microsecond=0)

    def _put_job(self, job: TFJob) -> None:
        version = str(int(self.job.metadata.resource_version or 0) + 1)
        self.job = msgspec.structs.replace(
            job, metadata=msgspec.structs.replace(job.metadata, resource_version=version)
        )

    def _changed(self) -> None:
        self._history.append(View(self.job, tuple(self.pods.values()), tuple(self.services.values())))


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
