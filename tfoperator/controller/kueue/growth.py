"""Asks Kueue for the quota of more workers of an elastic job, while the job keeps the quota that it has. Pure.

A job that has become smaller has given quota back, and Kueue lets a Workload with quota give back more only. So a job
asks for more workers by a second Workload, for all of its pods and not for the difference. An annotation names the
Workload that the second Workload is to replace. Kueue counts the difference alone, admits the second Workload when
there is room, and finishes the first. Until then the job goes on with the first. A Kueue that does not know the
annotation counts both, and admits the second Workload later.

The rules by which no quota is overdrawn:

- The second Workload decides only after Kueue has reserved its quota. Before, it gives no pod to the job.
- While the first Workload is there, too, the job has no more workers than under the first Workload. So both Workloads
  have quota for the pods of the job, and either may be evicted.
- A job that is suspended, evicted, changed or ended gives up the second Workload first.

Kueue does not combine such a Workload with partial admission. So the second Workload asks for a fixed number. If Kueue
has no room for it, the operator asks for half as many more workers, and at last for one more, and waits.
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
"""Kueue's reason of a Workload that it has finished, because another Workload of the job has quota."""

_ANSWER_TIME = 30.0
"""Seconds in which a scheduler has answered for each pod, unless a node must be added first."""

_PREEMPTING = "WaitingForPreemptedWorkloads"
"""Kueue's reason of a Workload for which it makes room by preemption: it needs no smaller number."""


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
    ordered = sorted(found, key=lambda one: one.metadata.name)
    if len(ordered) < 2 or not all(one.mark for one in ordered):
        others = [one for one in ordered if not one.mark] or ordered
        return Roles(others[0] if others else None)
    keys = {one.metadata.key for one in ordered}
    larger = next((one for one in ordered if one.replaces in keys), None) or next(
        (one for one in reversed(ordered) if one.replaces), None
    )
    if larger is None:
        return Roles(ordered[0])
    first = next((one for one in ordered if one.metadata.key == larger.replaces), None)
    if first is None:
        first = next(one for one in ordered if one is not larger)
    return Roles(larger, None, (first,)) if _takes_over(larger, first) else Roles(first, larger)


def _takes_over(larger: Workload, first: Workload) -> bool:
    """Return whether the larger Workload decides from now on: it has quota, or the first has none any more."""
    if first.is_true("Finished"):
        return True
    is_going = larger.metadata.deletion_timestamp is not None or larger.is_true("Evicted")
    return larger.is_true("QuotaReserved") and not is_going


def lacks_reservation(found: Sequence[Workload]) -> bool:
    """Return whether these Workloads lack the reservation for which Kueue has finished another of them.

    Kueue finishes a Workload as replaced only after it has reserved quota for the second Workload. So the cache has
    missed an event, and the job would lose its pods if the operator trusted it.
    """
    replaced = {one.metadata.key for one in found if one.condition("Finished").reason == REPLACED}
    return any(
        one.replaces in replaced
        and not one.is_true("QuotaReserved")
        and not one.is_true("Evicted")
        and one.metadata.deletion_timestamp is None
        for one in found
    )


class Wish(NamedTuple):
    """For how many workers a job asks beside the quota that it has, 0 if for none, and in how many seconds to look."""

    workers: int = 0
    look_again: float | None = None


def wish(job: TFJob, workload: Workload, quota: int, now: datetime) -> Wish:
    """Return for how many workers an admitted job asks now. It uses quota for so many.

    While pods of a larger size are still leaving, it uses less quota than it has, and asks for nothing: a Workload for
    fewer pods must not take over.
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
    """Return for how many workers a Workload has quota, by Kueue's sum."""
    asked = next((one for one in workload.spec.pod_sets if one.name == WORKERS), None)
    if asked is None or workload.status.admission is None:
        return 0
    spare = next((one.count for one in workload.status.reclaimable_pods if one.name == WORKERS), 0)
    given = next((one.count for one in workload.status.admission.pod_set_assignments if one.name == WORKERS), None)
    needed = asked.count - spare
    return needed if given is None else min(needed, given)


def seconds_to_grow(job: TFJob, workload: Workload, now: datetime) -> float:
    """Return for how many seconds a job keeps the quota of workers that it does not have yet; 0 if for none.

    A job that was admitted with more workers than it has asks for machines at once. It keeps the quota for
    `shrinkAfterSeconds`, as a job that begins does, and long enough for an answer of the scheduler.
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
    """Return the writes by which a job asks for so many workers; `sets` are the pod sets that it needs in all."""
    if larger is None:
        return (_asking(job, current, _with_workers(sets, wanted), sets),)
    asked = next((one.count for one in larger.spec.pod_sets if one.name == WORKERS), 0)
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


def _asking(job: TFJob, current: Workload, sets: list[dict[str, Any]], whole: list[dict[str, Any]]) -> Write:
    """Return the write that makes the second Workload, with a name of its own and the mark of the whole job."""
    body = workload_body(job, whole)
    body["spec"]["podSets"] = sets
    metadata = body["metadata"]
    metadata["name"] = _name_after(job, current)
    metadata["annotations"][REPLACES_ANNOTATION] = current.metadata.key
    return Write(Verb.CREATE, metadata["name"], body, prices=True)


def _name_after(job: TFJob, current: Workload) -> str:
    """Return the name of the Workload that replaces this Workload: each attempt uses the same name."""
    digest = hashlib.sha1(current.metadata.uid.encode(), usedforsecurity=False).hexdigest()[:5]
    return f"{workload_name(job)[: 253 - 1 - len(digest)]}-{digest}"


def _with_workers(sets: list[dict[str, Any]], workers: int) -> list[dict[str, Any]]:
    """Return the pod sets with exactly so many workers."""
    made = []
    for one in sets:
        kept = {name: value for name, value in one.items() if name != "minCount"}
        made.append(kept | {"count": workers} if one["name"] == WORKERS else one)
    return made


def _is_refused(larger: Workload) -> bool:
    """Return whether Kueue has looked at the Workload as it is now, and has no room for it."""
    answer = larger.condition("QuotaReserved")
    is_seen = answer.observed_generation == larger.metadata.generation
    return answer.status == "False" and is_seen and answer.reason != _PREEMPTING


def _is_bound(workload: Workload) -> bool:
    """Return whether the job asks for no second Workload.

    Kueue finishes the first Workload when it reserves quota for the second. So an admission check that has not passed
    then, or places in a topology that are not given, would stop a job that runs. A limit of the time for which a
    Workload is admitted would begin anew.
    """
    admission = workload.status.admission
    places = () if admission is None else admission.pod_set_assignments
    has_limit = workload.spec.maximum_execution_time_seconds is not None
    has_checks = bool(workload.status.admission_checks)
    return has_limit or has_checks or any(one.topology_assignment is not None for one in places)


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
