"""Decides everything that happens to a TFJob: values in, value out.

`plan()` has no clock, no client and no log, so its behaviour can be tested by tables and properties, and a sync is
"look, decide, act" with all the deciding in one place. It is level-triggered: it looks at the whole observed state,
never at what just happened, so a missed event or a crash between two actions changes nothing but the time.

Read it from top to bottom as the life of a job: not ours, ended, invalid, suspended, active, and how it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

import msgspec

from tfoperator.api.rules import MANAGED_BY_OPERATOR, MAX_REPLICAS, long_names
from tfoperator.api.templates import is_absent
from tfoperator.api.v1.types import ConditionType, ReplicaType, TFJob, TFJobStatus
from tfoperator.controller.actions import (
    DeleteReason,
    ObjectName,
    Observed,
    Plan,
    PlannedEvent,
    PlanOptions,
    PodCreate,
    PodDelete,
    ServiceCreate,
    ServiceDelete,
)
from tfoperator.controller.cleanup import clean_up_finished, delete_everything, expire
from tfoperator.controller.conditions import find_condition, is_finished
from tfoperator.controller.draft import Draft
from tfoperator.controller.invalid import plan_invalid
from tfoperator.controller.job_state import deadline_left, failure_of_job, has_succeeded
from tfoperator.controller.naming import NAMINGS, naming_in_use, peer_object_name
from tfoperator.controller.progress import report_end, report_progress, report_suspension
from tfoperator.controller.replicas import ReplicaGroup, Standing, observe_replicas
from tfoperator.controller.scaling import plan_replicas
from tfoperator.controller.status import Stage, build_status
from tfoperator.controller.templates import TemplateError
from tfoperator.controller.tensorboard import BoardObjects, plan_board, split_board
from tfoperator.controller.times import whole_second
from tfoperator.kube.objects import HasMetadata

__all__ = [
    "DeleteReason",
    "ObjectName",
    "Observed",
    "Plan",
    "PlanOptions",
    "PlannedEvent",
    "PodCreate",
    "PodDelete",
    "ServiceCreate",
    "ServiceDelete",
    "plan",
]


def plan(observed: Observed, now: datetime, options: PlanOptions) -> Plan:
    """What to do about the job at `now` (UTC). Never raises, whatever the job or its pods look like."""
    job = observed.job
    if job.metadata.deletion_timestamp is not None or _is_managed_by_others(job):
        # A deleted job's pods and services go with it: the garbage collector follows the owner references.
        return Plan(status=job.status)
    observed, board = split_board(observed)
    options = _with_names_in_use(observed, options)
    draft = Draft(observed, now, options)
    if is_finished(job.status.conditions):
        return _plan_finished(draft, board)
    suspended = job.spec.run_policy is not None and bool(job.spec.run_policy.suspend)
    problems = observed.problems or _unusable(job, options)
    # Whoever suspends a job wants back what it holds, whether the rest of its spec makes sense or not.
    if problems and not (suspended and job.status.start_time is not None):
        return plan_invalid(draft, problems)
    groups = observe_replicas(job, observed.pods, now, options)
    draft.absent += _absent(draft, groups)
    if not problems:
        # A job that waits in a queue has nothing to show yet, and its TensorBoard would not count in the queue.
        plan_board(draft, board, create=not suspended)
    if suspended:
        return _plan_suspended(draft, groups)
    try:
        return _plan_active(draft, groups)
    except TemplateError as error:
        # A fresh draft: nothing of the half-made plan may be carried out.
        return plan_invalid(Draft(observed, now, options), (str(error),))


def _is_managed_by_others(job: TFJob) -> bool:
    policy = job.spec.run_policy
    return policy is not None and bool(policy.managed_by) and policy.managed_by != MANAGED_BY_OPERATOR


def _with_names_in_use(observed: Observed, options: PlanOptions) -> PlanOptions:
    objects: Iterable[HasMetadata] = chain(observed.services, observed.pods)
    naming = naming_in_use(observed.job, objects, options.object_name)
    return options if naming is options.object_name else msgspec.structs.replace(options, object_name=naming)


def _unusable(job: TFJob, options: PlanOptions) -> tuple[str, ...]:
    """What keeps us from acting on the spec at all: what depends on options, and what validation might have missed."""
    if job.decode_error:
        return tuple(job.decode_error.splitlines())
    problems = []
    for key, replica in job.spec.tf_replica_specs.items():
        path = f"spec.tfReplicaSpecs[{key}]"
        if replica is None:
            problems.append(f"{path}: must not be null")
        elif key != ReplicaType.PS and is_absent(replica.template):
            problems.append(f"{path}.template: is required")
        elif replica.replicas is not None and not 0 <= replica.replicas <= MAX_REPLICAS:
            problems.append(f"{path}.replicas: must be from 0 to {MAX_REPLICAS}")
    if options.object_name is not peer_object_name:
        too_long = long_names("metadata.name", job.metadata.name, job.spec, partial(options.object_name, job))
        problems += map(str, too_long)
    return tuple(problems)


def _absent(draft: Draft, groups: Sequence[ReplicaGroup]) -> list[str]:
    """The names of pods that should be there and aren't: what follows from that may rest on a stale cache.

    Where nothing shows how the job's objects are named, the pods may have any of the names.
    """
    nothing_seen = not (draft.observed.pods or draft.observed.services)
    namings = {draft.options.object_name, *(NAMINGS if nothing_seen else ())}
    return sorted(
        naming(draft.job, group.type, replica.index)
        for group in groups
        for replica in group.replicas
        if replica.pod is None
        and replica.standing in (Standing.VANISHED, Standing.FAILED)
        and replica.index not in group.failed_before
        for naming in namings
    )


def _plan_finished(draft: Draft, board: BoardObjects) -> Plan:
    """A finished job: its pods are cleaned up, in time it is deleted; its TensorBoard stays until then."""
    status = draft.job.status
    expire(draft, status)
    failed = find_condition(status.conditions, ConditionType.FAILED)
    is_failed = failed is not None and failed.status == "True"
    if draft.delete_job:
        return draft.finish(status)
    # Nobody knows what an unreadable spec would have cleaned up.
    if not draft.job.decode_error:
        clean_up_finished(draft, failed=is_failed)
    if not draft.observed.problems:
        plan_board(draft, board)
    return draft.finish(status)


def _plan_suspended(draft: Draft, groups: Sequence[ReplicaGroup]) -> Plan:
    """A suspended job lets go of everything it has, unless it had already ended when it was suspended."""
    job = draft.job
    if has_succeeded(job, groups):
        return _end(draft, groups, None, job.status.start_time)
    failure = failure_of_job(job, groups, None, draft.now)
    if failure is not None:
        return _end(draft, groups, failure.message, job.status.start_time)
    report_suspension(draft)
    draft.free_lost_pods()
    delete_everything(draft, DeleteReason.SUSPEND)
    return draft.finish(
        build_status(
            job,
            groups,
            draft.conditions.result(),
            Stage.SUSPENDED,
            start_time=job.status.start_time,
            completion_time=None,
        )
    )


def _plan_active(draft: Draft, groups: Sequence[ReplicaGroup]) -> Plan:
    """A job that is to run: end it if it is over, else bring its pods and services to what the spec asks for."""
    job, now = draft.job, draft.now
    resumed = draft.conditions.is_true(ConditionType.SUSPENDED)
    start = whole_second(now) if resumed or job.status.start_time is None else job.status.start_time
    if has_succeeded(job, groups):
        return _end(draft, groups, None, start)
    failure = failure_of_job(job, groups, start, now)
    if failure is not None:
        return _end(draft, groups, failure.message, start)
    draft.free_lost_pods()
    plan_replicas(draft, groups)
    report_progress(draft, groups, resumed=resumed)
    left = deadline_left(job, start, now)
    if left is not None:
        draft.requeue_in(left)
    status = build_status(job, groups, draft.conditions.result(), Stage.ACTIVE, start_time=start, completion_time=None)
    return draft.finish(status)


def _end(draft: Draft, groups: Sequence[ReplicaGroup], failure: str | None, start: datetime | None) -> Plan:
    """The job is over: say so, once and for all, and clean up in the same breath."""
    job = draft.job
    report_end(draft, groups, failure)
    end = whole_second(draft.now)
    status: TFJobStatus = build_status(
        job,
        groups,
        draft.conditions.result(),
        Stage.SUCCEEDED if failure is None else Stage.FAILED,
        start_time=start,
        completion_time=end,
    )
    clean_up_finished(draft, failed=failure is not None)
    expire_later = job.spec.run_policy.ttl_seconds_after_finished if job.spec.run_policy else None
    if expire_later is not None:
        draft.requeue_in(max(expire_later, 0))
    return draft.finish(status)
