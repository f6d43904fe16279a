"""Counts the pods of a job that no longer need quota, and the pods for which the job still has quota. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfoperator.api.kueue.workloads import Workload
from tfoperator.api.replicas.data_service import DATA_SERVICE_POD_SET
from tfoperator.api.replicas.names import is_data_service, replica_of
from tfoperator.api.replicas.replica_pods import ENDED_PHASES
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import parse_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.kueue.pod_sets import admitted_count
from tfoperator.controller.kueue.writes import NextStatus
from tfoperator.controller.pods.manifests import restarts_together
from tfoperator.kube.views.objects import Pod


def occupies(pod: Pod) -> bool:
    """Return whether a pod occupies resources of a node, or will occupy them."""
    return pod.status.phase not in ENDED_PHASES


def quota_of(workload: Workload, status: NextStatus, reclaimed: Mapping[str, int]) -> dict[str, int]:
    """Return for how many pods of each set the job has quota after this status is written, as Kueue computes it.

    `reclaimed` is the number of pods of each set whose quota was given back (`QueueFacts.reclaimed`).
    """
    admission = workload.status.admission
    given = (
        {} if admission is None else {assignment.name: assignment.count for assignment in admission.pod_set_assignments}
    )
    left = {}
    for pod_set in workload.spec.pod_sets:
        count = given.get(pod_set.name)
        needed = pod_set.count - max(reclaimed.get(pod_set.name, 0), status.reclaimed.get(pod_set.name, 0))
        left[pod_set.name] = needed if count is None else min(needed, count)
    return left


def run_again(job: TFJob, workload: Workload, reclaimed: Mapping[str, int]) -> bool:
    """Return whether quota was given back for replicas that need it, for example because they run again."""
    is_elastic = job.spec.elastic_policy is not None
    ended = (_left_out if is_elastic else _done)(job, workload, (), reserved=True)
    return any(count > ended.get(name, 0) for name, count in reclaimed.items())


def not_needed(job: TFJob, workload: Workload, pods: Sequence[Pod], *, reserved: bool) -> dict[str, int]:
    """Return the number of replicas of each pod set that no longer need quota.

    `reserved` means that the Workload has quota. Replicas for which a pod still occupies resources are not counted.

    If all replicas restart together, a replica that has ended may run again, so it keeps its quota. If an elastic job
    continues with fewer workers, it gives back the quota of the workers that it no longer has, after their pods are
    gone.
    """
    if job.spec.elastic_policy is not None:
        return _left_out(job, workload, pods, reserved=reserved)
    return {} if restarts_together(job) else _done(job, workload, pods, reserved=reserved)


def _left_out(job: TFJob, workload: Workload, pods: Sequence[Pod], *, reserved: bool) -> dict[str, int]:
    """Return for how many workers an elastic job needs no quota because it continues without them."""
    size = job.status.elastic.workers if job.status.elastic is not None else 0
    if size <= 0 or not reserved:
        return {}
    busy = {replica_of(pod.metadata.labels) for pod in pods if occupies(pod)}
    admission = workload.status.admission
    given = (
        {} if admission is None else {assignment.name: assignment.count for assignment in admission.pod_set_assignments}
    )
    kind = ReplicaType.WORKER
    for pod_set in workload.spec.pod_sets:
        if pod_set.name == kind.lower():
            admitted = admitted_count(pod_set, given.get(pod_set.name))
            count = sum((kind, index) not in busy for index in range(size, admitted))
            return {pod_set.name: count + pod_set.count - admitted} if count else {}
    return {}


def _done(job: TFJob, workload: Workload, pods: Sequence[Pod], *, reserved: bool) -> dict[str, int]:
    """Return the number of replicas of each pod set that have ended for good and have no running pod.

    The result becomes the Workload's `reclaimablePods`. Kueue subtracts these from the requested number of pods, even
    if it has admitted fewer pods (`minCount`). So the result includes the replicas that were not admitted. For a set
    with `minCount` and without quota, the result has no entry: it is not known yet how many replicas Kueue will admit.
    """
    busy = {replica_of(pod.metadata.labels) for pod in pods if occupies(pod)}
    admission = workload.status.admission
    given = (
        {} if admission is None else {assignment.name: assignment.count for assignment in admission.pod_set_assignments}
    )
    statuses = {kind.lower(): (kind, status) for kind, status in job.status.replica_statuses.items()}
    done = {}
    for pod_set in workload.spec.pod_sets:
        if pod_set.name not in statuses or (pod_set.min_count is not None and not reserved):
            continue
        kind, status = statuses[pod_set.name]
        size = admitted_count(pod_set, given.get(pod_set.name))
        ended = parse_indexes(status.completed_indexes) | parse_indexes(status.failed_indexes)
        count = sum(index < size and (kind, index) not in busy for index in ended)
        done[pod_set.name] = count + pod_set.count - size if count else 0
    return done


def without_pods(workload: Workload, pods: Sequence[Pod]) -> dict[str, int]:
    """Return the number of pods of each pod set that don't run and will not run again, because the job has ended."""
    busy = [_pod_set_of(pod) for pod in pods if occupies(pod)]
    return {
        pod_set.name: pod_set.count - sum(name in (None, pod_set.name) for name in busy)
        for pod_set in workload.spec.pod_sets
    }


def _pod_set_of(pod: Pod) -> str | None:
    """Return the name of the pod set to which a pod belongs; None if the pod's labels name no pod set."""
    if is_data_service(pod.metadata.labels):
        return DATA_SERVICE_POD_SET
    replica = replica_of(pod.metadata.labels)
    return None if replica is None else replica[0].lower()
