"""Computes the status from the states of the replicas, and decides whether the new status is worth a write.

A status write costs the API server more than any other request of the operator. So changes that only the operator
itself needs are written together with the next necessary write. Changes that only raise counts are collected for a
short time: otherwise each pod of a large job that starts would cost a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import msgspec

from tfoperator.api.replicas.names import replicas_selector
from tfoperator.api.v1.choices import Network, ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.elastic import ElasticStatus, Resize
from tfoperator.api.v1.status import (
    JobCondition,
    JobUsage,
    ReplicaStatus,
    TFJobStatus,
    UsagePhase,
    all_conditions,
    format_indexes,
    parse_indexes,
    status_of,
)
from tfoperator.api.v1.types import TFJob, TFJobSpec
from tfoperator.base.clock import seconds_between, whole_second
from tfoperator.controller.plan.facts.facts import Facts, Stage
from tfoperator.controller.plan.replicas.replicas import ReplicaGroup, ReplicaState, has_record
from tfoperator.controller.plan.values.conditions import Conditions, is_finished
from tfoperator.controller.plan.values.observed import Observed, PlanOptions, clean_pod_policy

_CONDITIONS_WITH_COUNTS = frozenset({ConditionType.RUNNING, ConditionType.READY})
_UNREMARKABLE_CONDITIONS = frozenset({ConditionType.CREATED})
_UNIMPORTANT_FIELDS = frozenset({"last_reconcile_time", "network", "progress", "usage", "waiting"})
_WRITTEN_FIELDS = tuple(
    name for name in TFJobStatus.__struct_fields__ if name not in {*_UNIMPORTANT_FIELDS, "replica_statuses"}
)
"""Fields that are worth a write whenever they change. `replicaStatuses` is compared member by member."""

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
    """Return the job's complete status; the values in `parts` replace the computed values of the same fields.

    The present `lastReconcileTime` is kept.
    """
    match facts.verdict.stage:
        case Stage.FINISHED:
            status = _status_after_end(facts.job, conditions)
        case Stage.INVALID:
            status = _status_of_invalid(facts, conditions)
        case _:
            status = _status(facts, conditions, usage)
    changed = {name: part for name, part in parts.items() if getattr(status, name) != part}
    status = msgspec.structs.replace(status, **changed) if changed else status
    if status.elastic is None or usage is None or facts.verdict.stage in (Stage.FINISHED, Stage.INVALID):
        return status
    return msgspec.structs.replace(status, elastic=_with_cost(facts, status.elastic, usage))


def _with_cost(facts: Facts, record: ElasticStatus, usage: JobUsage) -> ElasticStatus:
    """Return the record of the number of workers, with the seconds without training that the last changes caused."""
    size, ends = facts.size, facts.verdict.stage.is_end
    if size is not None and size.changes and not ends:
        untrained = usage.untrained(facts.now)
        change = Resize(record.since, size.before, size.workers, record.reason, untrained_before=untrained)
        return record.with_resize(change)
    if record.workers <= 0 or ends:
        return record.closed(usage.untrained(facts.now))
    last = record.resizes[-1] if record.resizes else None
    if last is None or usage.phase != UsagePhase.TRAINING or usage.since is None:
        return record
    trains_again = last.time is None or seconds_between(last.time, usage.since) >= 0
    return record.closed(usage.untrained(usage.since)) if trains_again else record


def _status(facts: Facts, conditions: Conditions, usage: JobUsage | None) -> TFJobStatus:
    """Return the status of a job that continues, is suspended, or ends now.

    After a job has ended, its replicas don't count as active, because replicas that still run are stopped. After a
    success, these replicas count as succeeded, as in the Go operator. There is one exception: after a failure, if
    `cleanPodPolicy` is set, the replicas that ran when the failure was observed count as active, even if they are
    stopped afterwards. Clients of the Go operator expect this. In a suspended job, the replicas that still run because
    they can't be stopped yet count as active. `status.network` is set only if the job's objects use another network
    than the Go operator's.
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
    """Return the status of a job that had ended before: its outcome, times and counts stay.

    The generation of an edited spec is recorded as observed, since kstatus (Helm with `--wait`, Flux) waits until the
    generation is observed. A status that the Go operator wrote has no observed generation, and then kstatus does not
    wait. If an older release wrote a condition into another list, the condition moves to its present list.
    """
    status, generation = conditions.written_to(job.status), job.metadata.generation
    if status.observed_generation in (0, generation):
        return status
    return msgspec.structs.replace(status, observed_generation=generation)


def _status_of_invalid(facts: Facts, conditions: Conditions) -> TFJobStatus:
    """Return the status of a job with a spec that can't be used.

    If the job has not failed because of this, the counts and times in its status stay.
    """
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

    Running requires an active pod. A suspended job is Pending, because it waits until it can run. Unknown means that
    the operator can no longer read the spec.
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
    """Return whether the status has a change that other programs must see, or that must not be lost.

    Changes of these fields alone are not worth a write:

    - `lastReconcileTime`.
    - `waiting`: the condition Running has the same reasons as text.
    - `progress`: the progress server writes it.
    - `usage`: it can be computed from any earlier status.
    - `network`: the first status of a started job has it.
    - an index that is added to `startedIndexes`: if its pod is lost before the next write, the pod is replaced, and
      only the count of the loss is missing.

    An index that is removed from `startedIndexes` is worth a write. Otherwise the operator, which is about to delete
    the pod, would later take the pod's end for a loss. With an older CRD, the API server drops `waiting` and `network`
    at each write, so these two fields would always differ.
    """
    if old is new:
        return False
    for name in _WRITTEN_FIELDS:
        if getattr(old, name) != getattr(new, name):
            return True
    if old.replica_statuses.keys() != new.replica_statuses.keys():
        return True
    return any(_differs(before, new.replica_statuses[key]) for key, before in old.replica_statuses.items())


def seconds_until_due(
    observed: Observed, status: TFJobStatus, transitions: Set[ConditionType], options: PlanOptions, *, acts: bool
) -> float:
    """Return for how many seconds the status of a plan without events may wait before it is written.

    If the result is 0 or less, the status is written now. *The first status*: if it only reports that the job was
    created, it may wait for `first_status_period`. Often the pods run before that time is over, and one status write
    can report both.

    *A status in which only counts rise*: if more replicas are active or ready, the write waits until `counts_period`
    after the last write. The change is not lost, because each plan until then computes it again. If a plan `acts`, the
    status does not wait: such a plan may fail, and is then repeated at the time that the API server requests, and not
    when the status is due.
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
    """Return the counts as the message of a condition has them: `2/4 replicas ready, 1 completed, 1 failed`."""
    text = f"{ready}/{total} replicas ready"
    text += f", {completed} completed" if completed else ""
    return text + (f", {failed} failed" if failed else "")


def only_counts_rise(old: TFJobStatus, new: TFJobStatus, spec: TFJobSpec) -> bool:
    """Return whether `new` differs from `old` only because more replicas are active or ready.

    Clients do not wait for such a change, and it does no harm if the change is not written. The result is False if
    anything else changes, for example:

    - Fewer replicas are active or ready: there may be a problem.
    - All workers are active now: a client that scales a job waits for this. (If all replicas are ready, a condition
      changes, too.)
    - `startedIndexes` changes: without this record, a pod that is lost would look like a pod that never existed.

    `progress` is not compared, because the progress server writes it.
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
    """Return the condition without the time of its last update; if its message has counts, without the message, too.

    The other parts of such a message follow from the condition's reason, and from `waiting`, which is also compared.
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
