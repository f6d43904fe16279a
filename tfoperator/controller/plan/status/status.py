"""The status that follows from the replicas' states, and whether it is worth a write.

A status write costs the API server more than anything else we ask of it, so news that matter only to the operator wait
for the next write that is due anyway. The number of active replicas is the part that changes with every pod of a large
job that starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec

from tfoperator.api.replicas.names import replicas_selector
from tfoperator.api.v1.choices import Network, ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import (
    JobCondition,
    JobUsage,
    ReplicaStatus,
    TFJobStatus,
    all_conditions,
    format_indexes,
    parse_indexes,
    status_of,
)
from tfoperator.api.v1.types import TFJob, TFJobSpec
from tfoperator.base.clock import whole_second
from tfoperator.controller.plan.facts.facts import Facts, Stage
from tfoperator.controller.plan.replicas.replicas import ReplicaGroup, ReplicaState, has_record
from tfoperator.controller.plan.values.conditions import Conditions, is_finished
from tfoperator.controller.plan.values.observed import Observed, PlanOptions, clean_pod_policy

_CONDITIONS_WITH_COUNTS = frozenset({ConditionType.RUNNING, ConditionType.READY})
_UNREMARKABLE_CONDITIONS = frozenset({ConditionType.CREATED})
_SPECIAL_FIELDS = (
    "ready",
    "conditions",
    "operator_conditions",
    "replica_statuses",
    "last_reconcile_time",
    "progress",
    "usage",
)
_COMPARED_FIELDS = tuple(name for name in TFJobStatus.__struct_fields__ if name not in _SPECIAL_FIELDS)


def build_status(facts: Facts, conditions: Conditions, parts: Mapping[str, Any], usage: JobUsage | None) -> TFJobStatus:
    """Return the complete status of the job, with these `parts`; the current `lastReconcileTime` is kept."""
    match facts.verdict.stage:
        case Stage.FINISHED:
            status = _status_after_end(facts.job, conditions)
        case Stage.INVALID:
            status = _status_of_invalid(facts, conditions)
        case _:
            status = _status(facts, conditions, usage)
    changed = {name: part for name, part in parts.items() if getattr(status, name) != part}
    return msgspec.structs.replace(status, **changed) if changed else status


def _status(facts: Facts, conditions: Conditions, usage: JobUsage | None) -> TFJobStatus:
    """Return the status of a job that goes on, is suspended, or ends now.

    When the job has ended, replicas don't count as active, since replicas that still run are stopped. On success the Go
    operator counts these as succeeded, and so do we. On failure it counts as active what ran when it saw the failure,
    whatever it does with it then: so do we where `cleanPodPolicy` is set, as clients of that operator expect. In a
    suspended job, replicas are active that run on because they can't be stopped yet. `network` is the network of the
    job's objects: the status has it if it isn't the Go operator's.
    """
    job, groups, stage, held = facts.job, facts.groups, facts.verdict.stage, facts.running_on
    progress = facts.observed.progress or job.status.progress
    has_ended = stage.is_end
    per_job = facts.start is not None and facts.options.network is Network.PER_JOB
    is_active = stage is Stage.ACTIVE
    job_restarts = facts.restart.number if is_active else job.status.job_restarts
    job_disruptions = facts.restart.disruptions if is_active else job.status.job_disruptions
    specs = job.spec.tf_replica_specs
    name = job.metadata.name
    as_seen = stage is Stage.FAILED and bool(clean_pod_policy(job, facts.options))
    statuses = {g.type: _replica_status(g, stage, name, held.get(g.type, 0), as_seen=as_seen) for g in groups}
    replica_statuses = {
        str(key): replica_status
        for key, replica_status in statuses.items()
        if key in specs or has_record(replica_status)
    }
    ready = sum(status.ready for status in replica_statuses.values())
    total = sum(group.size for group in groups)
    status = conditions.written_to(job.status)
    return msgspec.structs.replace(
        status,
        phase=phase_of(status.conditions, replica_statuses.values()),
        ready=f"{ready}/{total}",
        restarts=job_restarts + sum(status.restarts for status in replica_statuses.values()),
        job_restarts=job_restarts,
        disruptions=job_disruptions + sum(status.disruptions for status in replica_statuses.values()),
        job_disruptions=job_disruptions,
        shared_restarts=facts.shared_restarts,
        disruption_backoff=facts.backoff if is_active else None,
        replica_statuses=replica_statuses,
        start_time=facts.start,
        completion_time=whole_second(facts.now) if has_ended else None,
        observed_generation=job.metadata.generation,
        network=Network.PER_JOB if per_job else job.status.network,
        progress=progress.without_estimate() if progress is not None and has_ended else progress,
        waiting=(),
        usage=usage,
        node_failures=dict(facts.node_failures),
    )


def _status_after_end(job: TFJob, conditions: Conditions) -> TFJobStatus:
    """Return the status of a job that had ended, which keeps its outcome, times and counts.

    The generation of an edited spec is recorded as observed, since kstatus (Helm with `--wait`, Flux) waits for that. A
    status of the Go operator has no observed generation, and kstatus does not wait then. Conditions that an older
    release wrote move to the list that they belong to.
    """
    status, generation = conditions.written_to(job.status), job.metadata.generation
    if status.observed_generation in (0, generation):
        return status
    return msgspec.structs.replace(status, observed_generation=generation)


def _status_of_invalid(facts: Facts, conditions: Conditions) -> TFJobStatus:
    """Return the status of a job whose spec can't be acted on: it has failed, or is as it was but for conditions."""
    status = conditions.written_to(facts.job.status)
    failed = is_finished(status.conditions)
    return msgspec.structs.replace(
        status,
        phase=phase_of(status.conditions, status.replica_statuses.values()),
        completion_time=whole_second(facts.now) if failed else status.completion_time,
        waiting=(),
        observed_generation=facts.job.metadata.generation,
    )


def phase_of(conditions: Sequence[JobCondition], statuses: Iterable[ReplicaStatus]) -> str:
    """Return the job's state in one word: Pending, Running, Succeeded, Failed or Unknown.

    Running needs an active pod; a suspended job is Pending, for it waits to run. Unknown: the operator can no longer
    interpret the spec.
    """
    if is_finished(conditions):
        return "Succeeded" if status_of(conditions, ConditionType.SUCCEEDED) == "True" else "Failed"
    running = status_of(conditions, ConditionType.RUNNING)
    if running == "Unknown":
        return "Unknown"
    restarts = status_of(conditions, ConditionType.RESTARTING) == "True"
    return "Running" if running == "True" or (restarts and any(status.active for status in statuses)) else "Pending"


def readiness(groups: Iterable[ReplicaGroup]) -> tuple[int, int, int]:
    """Return the numbers of replicas that are ready, that have succeeded, and that are wanted."""
    ready = completed = total = 0
    for group in groups:
        total += group.size
        for replica in group.replicas:
            if replica.state is ReplicaState.SUCCEEDED:
                completed += 1
            elif replica.ready:
                ready += 1
    return ready, completed, total


def is_worth_writing(old: TFJobStatus, new: TFJobStatus) -> bool:
    """Return whether anything changed that others must see, or that must not be forgotten.

    Some changes alone are not worth a write: `lastReconcileTime`; `waiting`, since the condition Running has the same
    reasons as text (an older CRD drops the field at each write); progress, which the progress server writes; usage,
    which adds up from any earlier status; the network, which the first status of a started job has (an older CRD drops
    it at each write); and indexes that have started. Forgetting a started index only means that a pod that is lost
    before anything else happened is replaced without being counted. An index that is given up must be recorded:
    otherwise the operator would mistake the end of its pod for a loss.
    """
    if old is new:
        return False
    for name in TFJobStatus.__struct_fields__:
        if name in ("last_reconcile_time", "network", "progress", "replica_statuses", "usage", "waiting"):
            continue
        if getattr(old, name) != getattr(new, name):
            return True
    if old.replica_statuses.keys() != new.replica_statuses.keys():
        return True
    return any(_differs(before, new.replica_statuses[key]) for key, before in old.replica_statuses.items())


def seconds_until_due(
    observed: Observed, status: TFJobStatus, transitions: Set[ConditionType], options: PlanOptions, *, acts: bool
) -> float:
    """Return the seconds that a status worth a write may wait if it comes without an event; 0 or less: write it now.

    *A status without news*: the creation of a job is no news to its creator. Its pods run a moment later, where pods
    start at once, and one status write for both spares the API server its most expensive request: of nine calls per
    small job one call, and a tenth of the CPU that the job costs it.

    *A status with nothing but counts*: that more replicas of a large job are active or ready is written together with
    the changes of the next moment. The change is not lost: each plan until then finds it again. A plan that `acts` may
    fail, and is then repeated at the time that the API server asks for, not when the status is due.
    """
    left = options.first_status_period - observed.known_for
    if left > 0 and not observed.job.status.conditions and transitions <= _UNREMARKABLE_CONDITIONS:
        return left
    left = options.counts_period - observed.status_age
    if left <= 0 or acts or transitions or (observed.comparison is not None and observed.comparison.write):
        return 0.0
    return left if only_counts_rise(observed.job.status, status, observed.job.spec) else 0.0


def _differs(old: ReplicaStatus, new: ReplicaStatus) -> bool:
    if old == new:
        return False
    if not parse_indexes(old.started_indexes) <= parse_indexes(new.started_indexes):
        return True
    return old != msgspec.structs.replace(new, started_indexes=old.started_indexes)


def _replica_status(group: ReplicaGroup, stage: Stage, job_name: str, held: int, *, as_seen: bool) -> ReplicaStatus:
    active = ready = failed = succeeded = 0
    for replica in group.replicas:
        state = replica.state
        if state is ReplicaState.RUNNING:
            active += 1
            ready += replica.ready
        elif state is ReplicaState.SUCCEEDED:
            succeeded += 1
        elif state is ReplicaState.FAILED or (
            state is ReplicaState.RESTARTING
            and replica.pod is not None
            and (replica.pod.status.phase == "Failed" or replica.exit_code is not None)
        ):
            failed += 1
    if stage is not Stage.ACTIVE:
        succeeded += active if stage is Stage.SUCCEEDED else 0
        active, ready = active if as_seen else held, 0
    counts, disruptions = _shown(group.counts), _shown(group.disruption_counts)
    return ReplicaStatus(
        active=active,
        succeeded=succeeded,
        failed=failed if stage is not Stage.SUSPENDED else 0,
        ready=ready,
        restarts=sum(counts.values()),
        restart_counts=counts,
        disruptions=sum(disruptions.values()),
        disruption_counts=disruptions,
        completed_indexes=format_indexes(group.completed),
        failed_indexes=format_indexes(group.failed),
        started_indexes="" if stage is Stage.SUSPENDED else format_indexes(group.started),
        selector=replicas_selector(job_name, group.type) if group.type is ReplicaType.WORKER else "",
    )


def _shown(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(index): counts[index] for index in sorted(counts) if counts[index] > 0}


def counted(ready: int, total: int, completed: int, failed: int) -> str:
    """Return the counts as conditions contain them."""
    text = f"{ready}/{total} replicas ready"
    text += f", {completed} completed" if completed else ""
    return text + (f", {failed} failed" if failed else "")


def only_counts_rise(old: TFJobStatus, new: TFJobStatus, spec: TFJobSpec) -> bool:
    """Return whether `new` differs from `old` only in that more replicas are active or ready.

    Then clients don't wait for it, and it can be left out without a loss. The result is False if fewer are active or
    ready (something may be wrong), or if all workers are active, which a client that scales a job waits for. (The
    readiness of all replicas is a condition.) Started indexes must be recorded, or the loss of a pod would look like a
    pod that never was; the progress server writes the progress.
    """
    if any(getattr(old, name) != getattr(new, name) for name in _COMPARED_FIELDS):
        return False
    if old.ready.partition("/")[2] != new.ready.partition("/")[2]:
        return False
    if not _same_but_for_counts(all_conditions(old), all_conditions(new)):
        return False
    if old.replica_statuses.keys() != new.replica_statuses.keys():
        return False
    if not all(_only_rises(before, new.replica_statuses[key]) for key, before in old.replica_statuses.items()):
        return False
    return not _all_workers_are_active(old, new, spec)


def _same_but_for_counts(old: Sequence[JobCondition], new: Sequence[JobCondition]) -> bool:
    return len(old) == len(new) and all(_news(before) == _news(after) for before, after in zip(old, new, strict=True))


def _news(condition: JobCondition) -> JobCondition:
    """Return the condition without a message that has counts, and without the time of the last update.

    The rest of such a message follows from the condition's reason, and from `waiting`, which is compared, too.
    """
    has_counts = condition.type in _CONDITIONS_WITH_COUNTS and condition.status != "Unknown"
    message = "" if has_counts else condition.message
    return msgspec.structs.replace(condition, message=message, last_update_time=None)


def _only_rises(old: ReplicaStatus, new: ReplicaStatus) -> bool:
    if new.active < old.active or new.ready < old.ready:
        return False
    return old == msgspec.structs.replace(new, active=old.active, ready=old.ready)


def _all_workers_are_active(old: TFJobStatus, new: TFJobStatus, spec: TFJobSpec) -> bool:
    before, now = (status.replica_statuses.get(ReplicaType.WORKER) for status in (old, new))
    workers = spec.tf_replica_specs.get(ReplicaType.WORKER)
    if before is None or now is None or workers is None:
        return False
    return before.active != now.active >= (workers.replicas or 0)
