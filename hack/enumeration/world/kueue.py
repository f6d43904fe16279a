"""A Kueue of one thread: it answers Workloads at once, as the manager of Kueue 0.19 does on a real API server.

It reserves quota and admits while there is room; the flag stands for the room that other jobs leave. It evicts the
Workloads of a step, and those that an administrator has set inactive, and waits until the operator has given the quota
back. For an elastic job it admits fewer workers if there is room for so many only, and a second Workload that replaces
the first: it finishes the first after it has reserved quota for the second, and counts the difference alone. Its rules
are what tests/e2e/test_kueue*.py see of the real Kueue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from hack.faults.journal import Recorder
from hack.faults.plan.queues import (
    CHECK,
    CHECK_LABELS,
    CHECK_SELECTOR,
    CHECK_TOLERATION,
    CLUSTER_QUEUE,
    FLAVOR,
    FLAVOR_SELECTOR,
    FLAVOR_TOLERATION,
    PRIORITIES,
)
from hack.faults.simulation.pod_groups import OPEN, crd_of
from tfoperator.api.kueue.queues import REPLACES_ANNOTATION
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient

Json = dict[str, Any]

_FLAVORS = Resource(WORKLOADS.group, WORKLOADS.version, "ResourceFlavor", "resourceflavors", namespaced=False)
_CLASSES = Resource(
    WORKLOADS.group, WORKLOADS.version, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False
)
_NO_ROOM = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu in flavor fast, 2 more needed"
_PREEMPTED = "Preempted to accommodate a workload (UID: u, JobUID: j) due to prioritization in the ClusterQueue"
_REPLACED = "Replaced to accommodate a new workload slice"
_decode = msgspec.json.Decoder(Json).decode


def kueue_crds() -> list[Json]:
    """The CRDs of the kinds of Kueue that the operator uses; what Kueue's webhooks refuse the oracle does."""
    properties = {"spec": OPEN, "status": OPEN}
    classes = crd_of(_CLASSES, {"value": {"type": "integer"}})
    return [crd_of(WORKLOADS, properties), crd_of(_FLAVORS, {"spec": OPEN}), classes]


class Kueue:
    """Acts in one namespace. For one thread."""

    def __init__(self, client: ApiClient, namespace: str, recorder: Recorder, now: Callable[[], datetime]) -> None:
        self._client = client
        self._namespace = namespace
        self._recorder = recorder
        self._now = now
        self.has_room = False
        self.pods: int | None = None
        """For how many pods of each set there is room; None if for all."""
        self.checks = False
        """Whether quota alone is not enough: an admission check has to agree."""

    # Actions of steps.

    def make_flavor(self) -> str:
        """An administrator makes the flavor of nodes."""
        return self._make(_FLAVORS, FLAVOR, spec={"nodeLabels": FLAVOR_SELECTOR, "tolerations": [FLAVOR_TOLERATION]})

    def make_priorities(self) -> str:
        """An administrator makes the classes of priorities."""
        return ", ".join(self._make(_CLASSES, name, value=value) for name, value in PRIORITIES.items() if name)

    def _make(self, resource: Resource, name: str, **members: Any) -> str:
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        self._client.create(resource, "", {**kind, "metadata": {"name": name}, **members}, _decode)
        return name

    def preempt(self) -> str:
        """All that have quota lose it to others, and there is no room any more."""
        self.has_room = False
        victims = [
            workload
            for workload in self._workloads()
            if _holds(workload, "QuotaReserved") and not _holds(workload, "Evicted", "Finished")
        ]
        for victim in victims:
            evicted = self._condition("Evicted", "True", "Preempted", _PREEMPTED)
            self._write(victim, [evicted, self._condition("Preempted", "True", "InClusterQueue", _PREEMPTED)])
        return ", ".join(map(_name, victims)) or "no Workload has quota"

    def set_active(self, active: bool) -> str:
        """Set `active` of all Workloads that have another value, as an administrator does."""
        changed = [workload for workload in self._workloads() if workload["spec"].get("active", True) is not active]
        for workload in changed:
            self._client.patch(WORKLOADS, self._namespace, _name(workload), {"spec": {"active": active}}, _decode)
        return ", ".join(map(_name, changed)) or "no such Workload"

    def relax(self, *, finished: bool) -> None:
        """Make everything right again: there is room, checks agree, and in the end all Workloads are active."""
        self.has_room, self.pods, self.checks = True, None, False
        if finished:
            self.set_active(True)

    # Its own actions.

    def act(self) -> bool:
        """Answer one Workload; whether there was one to answer."""
        return any(map(self._answer, self._workloads()))

    def _answer(self, workload: Json) -> bool:
        if _holds(workload, "Finished") or workload["metadata"].get("deletionTimestamp"):
            return False
        evicted = _condition_of(workload, "Evicted")
        if workload["spec"].get("active") is False:
            if evicted.get("status") == "True" and evicted["reason"] == "Deactivated":
                return False
            return self._write(
                workload, [self._condition("Evicted", "True", "Deactivated", "The workload is deactivated")]
            )
        if _holds(workload, "QuotaReserved"):
            if (replaced := self._replaced_by(workload)) is not None:
                over = self._condition("Finished", "True", "WorkloadSliceReplaced", _REPLACED)
                return self._write(replaced, [over])
            return not _holds(workload, "Admitted", "Evicted") and not self.checks and self._admit(workload)
        requeued = _condition_of(workload, "Requeued")
        if requeued.get("status") == "False":
            again = self._condition("Requeued", "True", "Reactivated", "The workload was reactivated")
            return self._write(workload, [again])
        counts = {pod_set["name"]: self._room_for(pod_set, workload) for pod_set in workload["spec"]["podSets"]}
        if self.has_room and None not in counts.values():
            return self._reserve(workload, counts)
        waits = self._condition("QuotaReserved", "False", "Pending", _NO_ROOM, workload)
        current = _condition_of(workload, "QuotaReserved")
        is_answered = current and all(current[name] == waits[name] for name in ("message", "observedGeneration"))
        return not is_answered and self._write(workload, [waits])

    def _room_for(self, pod_set: Json, workload: Json) -> int | None:
        """For how many pods of this set there is room, None if for too few."""
        spare = {pod["name"]: pod["count"] for pod in _status(workload).get("reclaimablePods") or ()}
        wanted = int(pod_set["count"]) - spare.get(pod_set["name"], 0)
        given = wanted if self.pods is None else min(wanted, self.pods)
        return None if given < pod_set.get("minCount", wanted) else given

    def _replaced_by(self, workload: Json) -> Json | None:
        """The Workload that this Workload replaces, if it is there and not finished."""
        key = (workload["metadata"].get("annotations") or {}).get(REPLACES_ANNOTATION)
        matches = (other for other in self._workloads() if f"{self._namespace}/{_name(other)}" == key)
        return next((other for other in matches if not _holds(other, "Finished")), None)

    def _reserve(self, workload: Json, counts: Mapping[str, int | None]) -> bool:
        assignments = [{"name": name, "flavors": {"cpu": FLAVOR}, "count": count} for name, count in counts.items()]
        status: Json = {"admission": {"clusterQueue": CLUSTER_QUEUE, "podSetAssignments": assignments}}
        reserved = self._condition(
            "QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {CLUSTER_QUEUE}"
        )
        over = [
            self._condition(kind, "False", "QuotaReserved", f"Previously: {_condition_of(workload, kind)['message']}")
            for kind in ("Evicted", "Preempted")
            if _holds(workload, kind)
        ]
        if self.checks:
            status["admissionChecks"] = [{"name": CHECK, "state": "Pending", "message": "the budget is looked at"}]
        conditions = [reserved, *over] if self.checks else [reserved, self._admitted(), *over]
        return self._write(workload, conditions, **status)

    def _admit(self, workload: Json) -> bool:
        """Its admission check has agreed."""
        wanted = {"labels": CHECK_LABELS, "nodeSelector": CHECK_SELECTOR, "tolerations": [CHECK_TOLERATION]}
        updates = [{"name": pod_set["name"], **wanted} for pod_set in workload["spec"]["podSets"]]
        done = {"name": CHECK, "state": "Ready", "message": "", "podSetUpdates": updates}
        return self._write(workload, [self._admitted()], admissionChecks=[done])

    def _admitted(self) -> Json:
        return self._condition("Admitted", "True", "Admitted", "The workload is admitted")

    def _workloads(self) -> list[Json]:
        return self._recorder.current("Workload")

    def _condition(self, kind: str, status: str, reason: str, message: str, about: Json | None = None) -> Json:
        """A condition; with `about`, it notes which generation of this Workload it is about."""
        moment = f"{self._now():%Y-%m-%dT%H:%M:%SZ}"
        made = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": moment}
        return made if about is None else {**made, "observedGeneration": about["metadata"].get("generation", 1)}

    def _write(self, workload: Json, conditions: list[Json], **status: Any) -> bool:
        new = {condition["type"] for condition in conditions}
        kept = [condition for condition in _status(workload).get("conditions") or () if condition["type"] not in new]
        change = {
            "metadata": {"uid": workload["metadata"]["uid"]},
            "status": {"conditions": kept + conditions, **status},
        }
        try:
            self._client.patch(WORKLOADS, self._namespace, _name(workload), change, _decode, subresource="status")
        except KubeError as error:
            raise RuntimeError(f"Kueue can't write: {error}") from error
        return True


def _name(workload: Json) -> str:
    return str(workload["metadata"]["name"])


def _status(workload: Json) -> Json:
    return workload.get("status") or {}


def _condition_of(workload: Json, kind: str) -> Json:
    return next((condition for condition in _status(workload).get("conditions") or () if condition["type"] == kind), {})


def _holds(workload: Json, *kinds: str) -> bool:
    """Whether one of these conditions is true."""
    return any(_condition_of(workload, kind).get("status") == "True" for kind in kinds)
