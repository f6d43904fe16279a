"""Asks Kueue for the quota of more workers of an elastic job, while the job keeps the quota that it has. Pure.

An elastic job that has become smaller has given quota back. Kueue lets a Workload with quota give back quota, but not
request more. So the job requests quota for more workers with a second Workload, which covers all pods of the job and
not only the additional pods. An annotation names the Workload that the second Workload is to replace. Kueue needs free
quota only for the additional pods, admits the second Workload when there is room, and finishes the first. Until then
the job continues with the first Workload. A version of Kueue that does not know the annotation needs free quota for all
pods of the second Workload, and so admits it later.

The rules by which no quota is overdrawn:

- Before Kueue has reserved quota for the second Workload, the operator creates no pod because of the second Workload.
- While both Workloads exist, the job has only as many workers as the first Workload has quota for. So each Workload
  that has quota has enough quota for all pods of the job, and Kueue may evict either of the two Workloads.
- A job that is suspended, evicted, changed or ended gives up the second Workload first.

Kueue does not admit a part of a Workload that replaces another Workload. So the second Workload asks for a fixed number
of workers, without `minCount`. If Kueue has no room for it, the operator halves the number of additional workers
again and again. With one additional worker, it waits for room.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tfoperator.api.kueue.queues import POD_SETS_ANNOTATION, REPLACES_ANNOTATION, queue_name
from tfoperator.api.kueue.workloads import Workload
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import parse_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import epoch_seconds, seconds_between
from tfoperator.controller.kueue.pod_sets import workload_body, workload_name
from tfoperator.controller.kueue.writes import Verb, Write, patch_of, removal

WORKERS = ReplicaType.WORKER.lower()
"""The name of the pod set of the workers."""

REPLACED = "WorkloadSliceReplaced"
"""The reason that Kueue gives when it finishes a Workload because another Workload of the job has quota."""

_ANSWER_TIME = 30.0
"""Within this number of seconds, a scheduler has usually assigned a node to each pod or reported that no node has room.
"""

_PREEMPTING = "WaitingForPreemptedWorkloads"
"""The reason that Kueue gives for a Workload while it preempts other Workloads to make room for it. During this time,
the operator does not reduce the number of workers.
"""


class Roles(NamedTuple):
    """The Workloads of a job.

    `current` decides about the job's pods. `larger` asks for more workers, and has no quota yet. `spent` are Workloads
    that the current Workload has replaced.
    """

    current: Workload | None = None
    larger: Workload | None = None
    spent: tuple[Workload, ...] = ()


def roles_of(found: Sequence[Workload]) -> Roles:
    """Return the roles of a job's Workloads."""
    ordered = sorted(found, key=lambda workload: workload.metadata.name)
    if len(ordered) < 2 or not all(workload.mark for workload in ordered):
        others = [workload for workload in ordered if not workload.mark] or ordered
        return Roles(others[0] if others else None)
    keys = {workload.metadata.key for workload in ordered}
    larger = next((workload for workload in ordered if workload.replaces in keys), None) or next(
        (workload for workload in reversed(ordered) if workload.replaces), None
    )
    if larger is None:
        return Roles(ordered[0])
    first = next((workload for workload in ordered if workload.metadata.key == larger.replaces), None)
    if first is None:
        first = next(workload for workload in ordered if workload is not larger)
    return Roles(larger, None, (first,)) if _takes_over(larger, first) else Roles(first, larger)


def _takes_over(larger: Workload, first: Workload) -> bool:
    """Return whether the larger Workload replaces the first.

    It does so if it has quota and is not being deleted or evicted, or if Kueue has finished the first Workload.
    """
    if first.is_true("Finished"):
        return True
    is_going = larger.metadata.deletion_timestamp is not None or larger.is_true("Evicted")
    return larger.is_true("QuotaReserved") and not is_going


def lacks_reservation(found: Sequence[Workload]) -> bool:
    """Return whether one of these Workloads is finished as replaced, but its successor shows no reserved quota.

    Kueue finishes a Workload with the reason `WorkloadSliceReplaced` only after it has reserved quota for the
    successor. So the cache has missed an event. If the operator trusted the cache, the job would lose its pods.
    """
    replaced = {workload.metadata.key for workload in found if workload.condition("Finished").reason == REPLACED}
    return any(
        workload.replaces in replaced
        and not workload.is_true("QuotaReserved")
        and not workload.is_true("Evicted")
        and workload.metadata.deletion_timestamp is None
        for workload in found
    )


class Wish(NamedTuple):
    """The number of workers for which the job's second Workload must ask, or 0 if the job needs no second Workload.

    `workers` counts all workers, not only the additional workers. `look_again` is the number of seconds after which the
    number may change without an event.
    """

    workers: int = 0
    look_again: float | None = None


def wish(job: TFJob, workload: Workload, quota: int, now: datetime) -> Wish:
    """Return for how many workers an admitted job asks now; `quota` is the number of workers for which it uses quota.

    After a reduction, pods of removed workers may still be terminating. Then the job uses less quota than it has, and
    asks for nothing: a second Workload would have no quota for these pods.
    """
    policy, elastic = job.spec.elastic_policy, job.status.elastic
    spec = job.spec.tf_replica_specs.get(ReplicaType.WORKER)
    if policy is None or elastic is None or elastic.workers <= 0 or spec is None:
        return Wish()
    if spec.desired <= quota or quota < held(workload) or _is_bound(workload) or _has_completed(job):
        return Wish()
    times = (elastic.since, _reserved_at(workload))
    since = max(filter(None, times), key=epoch_seconds, default=None)
    due = 0.0 if since is None else policy.grow_after - seconds_between(since, now)
    return Wish(look_again=due) if due > 0 else Wish(spec.desired)


def held(workload: Workload) -> int:
    """Return for how many workers a Workload has quota, as Kueue computes it."""
    asked = next((pod_set for pod_set in workload.spec.pod_sets if pod_set.name == WORKERS), None)
    if asked is None or workload.status.admission is None:
        return 0
    spare = next(
        (reclaimable.count for reclaimable in workload.status.reclaimable_pods if reclaimable.name == WORKERS), 0
    )
    given = next(
        (
            assignment.count
            for assignment in workload.status.admission.pod_set_assignments
            if assignment.name == WORKERS
        ),
        None,
    )
    needed = asked.count - spare
    return needed if given is None else min(needed, given)


def seconds_to_grow(job: TFJob, workload: Workload, now: datetime) -> float:
    """Return for how many seconds a job still keeps the quota of missing workers; 0 if the quota is to be given back.

    If a job was admitted with more workers than it has, the operator looks at once for nodes for the missing workers.
    The job keeps the quota for `shrinkAfterSeconds`, but for at least 30 seconds, so that the scheduler can answer.
    """
    policy, elastic, reserved = job.spec.elastic_policy, job.status.elastic, _reserved_at(workload)
    if policy is None or elastic is None or elastic.workers <= 0 or elastic.since is None or reserved is None:
        return 0.0
    if seconds_between(elastic.since, reserved) <= 0:
        return 0.0
    return max(max(policy.shrink_after, _ANSWER_TIME) - seconds_between(reserved, now), 0.0)


def writes_for(
    job: TFJob, current: Workload, larger: Workload | None, wanted: int, quota: int, sets: list[dict[str, Any]]
) -> tuple[Write, ...]:
    """Return the writes with which a job requests quota for `wanted` workers in a second Workload.

    `larger` is the second Workload, if it exists. `quota` is the number of workers for which the job uses quota now.
    `sets` are the pod sets for the size in the spec. If `larger` no longer fits the job, the writes only delete it. If
    Kueue has no room for `larger`, the writes reduce its number of workers.
    """
    if larger is None:
        return (_second_workload(job, current, _with_workers(sets, wanted), sets),)
    asked = next((pod_set.count for pod_set in larger.spec.pod_sets if pod_set.name == WORKERS), 0)
    body = workload_body(job, sets)
    is_same = larger.mark == body["metadata"]["annotations"][POD_SETS_ANNOTATION]
    is_going = larger.metadata.deletion_timestamp is not None
    if is_going or not is_same or larger.spec.queue_name != queue_name(job.metadata.labels):
        return removal(larger)
    count = wanted if asked > wanted or asked <= quota else asked
    if count == asked and _is_refused(larger):
        count = quota + max((asked - quota) // 2, 1)
    if count == asked:
        return ()
    return (patch_of(larger, {"spec": {"podSets": _with_workers(sets, count)}}),)


def _second_workload(job: TFJob, current: Workload, sets: list[dict[str, Any]], whole: list[dict[str, Any]]) -> Write:
    """Return the write that creates the second Workload, which requests the pod sets `sets`.

    Its annotation `POD_SETS_ANNOTATION` (a hash) describes `whole`, the pod sets with all wanted workers: if Kueue has
    no room and the operator lowers the number in `sets`, the Workload still counts as a request of this job.
    """
    body = workload_body(job, whole)
    body["spec"]["podSets"] = sets
    metadata = body["metadata"]
    metadata["name"] = _name_after(job, current)
    metadata["annotations"][REPLACES_ANNOTATION] = current.metadata.key
    return Write(Verb.CREATE, metadata["name"], body, prices=True)


def _name_after(job: TFJob, current: Workload) -> str:
    """Return the name of the Workload that replaces `current`. It depends only on the job and on `current`."""
    digest = hashlib.sha1(current.metadata.uid.encode(), usedforsecurity=False).hexdigest()[:5]
    return f"{workload_name(job)[: 253 - 1 - len(digest)]}-{digest}"


def _with_workers(sets: list[dict[str, Any]], workers: int) -> list[dict[str, Any]]:
    """Return the pod sets with exactly this number of workers, and without `minCount`."""
    made = []
    for pod_set in sets:
        kept = {name: value for name, value in pod_set.items() if name != "minCount"}
        made.append(kept | {"count": workers} if pod_set["name"] == WORKERS else pod_set)
    return made


def _is_refused(larger: Workload) -> bool:
    """Return whether Kueue has looked at the Workload as it is now, and has no room for it.

    While Kueue preempts other Workloads to make room, the result is False.
    """
    answer = larger.condition("QuotaReserved")
    is_seen = answer.observed_generation == larger.metadata.generation
    return answer.status == "False" and is_seen and answer.reason != _PREEMPTING


def _is_bound(workload: Workload) -> bool:
    """Return whether the job can't ask for a second Workload, because of the features that its Workload uses.

    Kueue finishes the first Workload as soon as it reserves quota for the second Workload. At that time, the second
    Workload may still wait for an admission check or for nodes in a topology, and the running job would have to stop.
    With `maximumExecutionTimeSeconds`, the second Workload would start a new time limit.
    """
    admission = workload.status.admission
    places = () if admission is None else admission.pod_set_assignments
    has_limit = workload.spec.maximum_execution_time_seconds is not None
    has_checks = bool(workload.status.admission_checks)
    return has_limit or has_checks or any(place.topology_assignment is not None for place in places)


def _has_completed(job: TFJob) -> bool:
    """Return whether a worker has ended for good: then the job does not grow any more."""
    status = job.status.replica_statuses.get(ReplicaType.WORKER)
    return status is not None and bool(parse_indexes(status.completed_indexes) | parse_indexes(status.failed_indexes))


def _reserved_at(workload: Workload) -> datetime | None:
    """Return when Kueue reserved the quota that a Workload has; None if it has none, or the time is not readable."""
    reserved = workload.condition("QuotaReserved")
    if reserved.status != "True":
        return None
    try:
        return msgspec.convert(reserved.last_transition_time, datetime)
    except msgspec.ValidationError:
        return None
