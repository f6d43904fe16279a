"""Decides everything that happens to a TFJob: values in, value out.

`plan()` has no clock, no client and no log, so its behaviour can be tested by tables and properties, and a sync is
"look, decide, act" with all the deciding in one place. It is level-triggered: it looks at the whole observed state,
never at what just happened, so a missed event or a crash between two actions changes nothing but the time.

Read it from top to bottom as the life of a job: not ours, ended, invalid, suspended, active, and how it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

import msgspec

from tfoperator.api.templates import is_absent
from tfoperator.api.v1.types import ConditionType, OnStall, ReplicaType, TFJob, TFJobStatus
from tfoperator.api.validation import MANAGED_BY_OPERATOR, MAX_REPLICAS, long_names
from tfoperator.base.clock import whole_second
from tfoperator.controller.plan.actions import DeleteReason, Plan
from tfoperator.controller.plan.cleanup import clean_up_finished, delete_everything, time_to_live_left
from tfoperator.controller.plan.conditions import find_condition, is_finished
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.invalid import plan_invalid
from tfoperator.controller.plan.job_restart import JobRestart, plan_job_restart, start_over
from tfoperator.controller.plan.observed import Observed, PlanOptions
from tfoperator.controller.plan.postponing import with_own_deletions
from tfoperator.controller.plan.progress import stacks_before_deadline
from tfoperator.controller.plan.replicas import ReplicaGroup, ReplicaState, observe_replicas
from tfoperator.controller.plan.reporting import (
    report_edits,
    report_end,
    report_progress,
    report_suspension,
    watch_progress,
)
from tfoperator.controller.plan.scaling import plan_replicas
from tfoperator.controller.plan.stall import judge_progress, mark_stalled
from tfoperator.controller.plan.status import build_status
from tfoperator.controller.plan.tensorboard import TensorBoardObjects, plan_tensorboard, split_tensorboard
from tfoperator.controller.plan.verdict import Stage, Verdict, judge, seconds_to_deadline
from tfoperator.controller.pods import (
    NAMINGS,
    PLAIN_NAMES,
    TemplateError,
    is_service_of,
    naming_in_use,
    network_in_use,
    restarts_together,
)
from tfoperator.kube.objects import HasMetadata


def plan(observed: Observed, now: datetime, options: PlanOptions) -> Plan:
    """What to do about the job at `now` (UTC). Never raises, whatever the job or its pods look like."""
    job = observed.job
    if job.metadata.deletion_timestamp is not None or is_managed_by_others(job):
        # A deleted job's pods and services go with it: the garbage collector follows the owner references.
        return Plan(status=job.status)
    observed, tensorboard = split_tensorboard(_without_strangers(with_own_deletions(observed, now)))
    options = _as_started(observed, options)
    draft = Draft(observed, now, options)
    try:
        if is_finished(job.status.conditions):
            status = _plan_finished(draft, tensorboard)
        else:
            status = _plan_unfinished(draft, tensorboard)
    except TemplateError as error:
        # A fresh draft: nothing of the half-made plan may be carried out.
        draft = Draft(observed, now, options)
        status = plan_invalid(draft, (str(error),))
    return draft.finish(status)


def is_managed_by_others(job: TFJob) -> bool:
    """Whether `runPolicy.managedBy` gives the job to another controller."""
    policy = job.spec.run_policy
    return policy is not None and bool(policy.managed_by) and policy.managed_by != MANAGED_BY_OPERATOR


def _without_strangers(observed: Observed) -> Observed:
    """The same without services that look like the job's, and are not: an older operator may have adopted them."""
    own = [one for one in observed.services if is_service_of(observed.job, one.metadata)]
    return observed if len(own) == len(observed.services) else msgspec.structs.replace(observed, services=tuple(own))


def _as_started(observed: Observed, options: PlanOptions) -> PlanOptions:
    """The options with the naming and the network that the job has: the operator's are for jobs that have none yet."""
    job, pods, services = observed.job, observed.pods, observed.services
    objects: Iterable[HasMetadata] = chain(services, pods)
    naming = naming_in_use(job, objects, options.naming)
    network = network_in_use(job, pods, services, naming.job(job), options.network)
    if naming is options.naming and network is options.network:
        return options
    return msgspec.structs.replace(options, naming=naming, network=network)


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
    if options.naming is not PLAIN_NAMES:
        too_long = long_names("metadata.name", job.metadata.name, job.spec, partial(options.naming.replica, job))
        problems += map(str, too_long)
    return tuple(problems)


def _absent(draft: Draft, groups: Sequence[ReplicaGroup]) -> list[str]:
    """The names of pods that should be there and aren't: what follows from that may rest on a stale cache.

    Where nothing shows how the job's objects are named, the pods may have any of the names.
    """
    nothing_seen = not (draft.observed.pods or draft.observed.services)
    namings = {draft.options.naming, *(NAMINGS if nothing_seen else ())}
    return sorted(
        naming.replica(draft.job, group.type, replica.index)
        for group in groups
        for replica in group.replicas
        if replica.pod is None and replica.state is ReplicaState.VANISHED
        for naming in namings
    )


def _plan_finished(draft: Draft, tensorboard: TensorBoardObjects) -> TFJobStatus:
    """A finished job: its pods are cleaned up, in time it is deleted; its TensorBoard stays until then."""
    job = draft.job
    left = time_to_live_left(job, draft.now)
    if left is not None and left <= 0:
        draft.delete_job()
        return job.status
    if left is not None:
        draft.requeue_in(left)
    failed = find_condition(job.status.conditions, ConditionType.FAILED)
    # Nobody knows what an unreadable spec would have cleaned up.
    if not job.decode_error:
        clean_up_finished(draft, failed=failed is not None and failed.status == "True")
    if not draft.observed.problems:
        plan_tensorboard(draft, tensorboard)
    return job.status


def _plan_unfinished(draft: Draft, tensorboard: TensorBoardObjects) -> TFJobStatus:
    """A job that has not ended: it is invalid, or ends now, or lets go of everything (suspended), or goes on.

    Raises TemplateError if no pod can be made from a template.
    """
    job, now, observed = draft.job, draft.now, draft.observed
    suspended = job.spec.run_policy is not None and bool(job.spec.run_policy.suspend)
    problems = observed.problems or _unusable(job, draft.options)
    # Whoever suspends a job wants back what it holds, whether the rest of its spec makes sense or not.
    if problems and not (suspended and job.status.start_time is not None):
        return plan_invalid(draft, problems)
    groups = observe_replicas(job, observed.pods, now, draft.options)
    draft.absent += _absent(draft, groups)
    if not problems:
        plan_tensorboard(draft, tensorboard, suspended=suspended)
    resumed = not suspended and draft.conditions.is_true(ConditionType.SUSPENDED)
    if resumed and observed.pods:
        # What is left of the time before would be taken for what is made now.
        suspended, resumed = True, False
    start = job.status.start_time
    has_objects = bool(observed.pods or observed.services)
    if resumed or (start is None and (has_objects or not suspended)):
        # Also of a job that is suspended before its first status: it was started, as its objects show, and keeps the
        # network that they have when they are gone.
        start = whole_second(now)
    stall = judge_progress(job, groups, observed, now)
    if stall.ends_as is OnStall.RESTART and not suspended:
        mark_stalled(groups, stall)
    restart = plan_job_restart(job, groups, observed.pods, now, draft.options)
    last = stacks_before_deadline(groups, observed, seconds_to_deadline(job, start, now), now)
    verdict = judge(
        job,
        groups,
        start,
        now,
        suspended=suspended,
        job_restarts=restart.number,
        stalled="" if stall.ends_as is OnStall.REPORT else stall.message,
        stall_fails=stall.ends_as is OnStall.FAIL,
        deadline_waits=last is not None,
    )
    job_restarts = job.status.job_restarts
    held: Mapping[ReplicaType, int] = {}
    match verdict.stage:
        case Stage.SUCCEEDED | Stage.FAILED:
            _plan_end(draft, groups, verdict)
        case Stage.SUSPENDED:
            held = _plan_suspended(draft, groups)
        case Stage.ACTIVE:
            job_restarts = restart.number
            _plan_active(draft, groups, restart, resumed=resumed)
            watch_progress(draft, stall)
            if last is not None:
                draft.take_stacks(last.pods)
                draft.requeue_in(last.left)
            elif verdict.deadline_left is not None:
                draft.requeue_in(verdict.deadline_left)
    return build_status(
        job,
        groups,
        draft.conditions.result(),
        verdict.stage,
        job_restarts=job_restarts,
        start_time=start,
        now=now,
        network=draft.options.network if start is not None else None,
        progress=observed.progress,
        held=held,
    )


def _plan_active(draft: Draft, groups: Sequence[ReplicaGroup], restart: JobRestart, *, resumed: bool) -> None:
    """The job goes on: its pods and services are brought to what it asks for. Raises TemplateError."""
    draft.free_lost_pods()
    if resumed:
        # Before a pod is made, which could be taken for an old one otherwise.
        draft.write_status_first()
    if restart.causes:
        start_over(groups)
    plan_replicas(draft, groups, restart)
    report_progress(draft, groups, restart, resumed=resumed)
    report_edits(draft, groups)


def _plan_suspended(draft: Draft, groups: Sequence[ReplicaGroup]) -> Mapping[ReplicaType, int]:
    """The job lets go of all that it has. Returns by type how many replicas run on all the same.

    Those have to stay until their logs are kept, or their deletion has failed before. What is deleted now counts as
    gone, as for the Go operator.
    """
    observed = draft.observed
    again = draft.conditions.is_true(ConditionType.SUSPENDED)
    unkept = frozenset() if observed.unkept_logs is None else observed.unkept_logs.pods
    report_suspension(draft)
    draft.free_lost_pods()
    delete_everything(draft, DeleteReason.SUSPEND)
    held = {
        group.type: sum(
            one.state is ReplicaState.RUNNING and one.pod is not None and (again or one.pod.metadata.uid in unkept)
            for one in group.replicas
        )
        for group in groups
    }
    if restarts_together(draft.job):
        # None of them can train without the others, so those that had succeeded run again, too.
        start_over(groups)
    return held


def _plan_end(draft: Draft, groups: Sequence[ReplicaGroup], verdict: Verdict) -> None:
    """The job is over: record its end, which never changes again, and clean up."""
    for group in groups:
        group.forget_new_restarts()
    report_end(draft, groups, verdict.failure, verdict.reason)
    clean_up_finished(draft, failed=verdict.stage is Stage.FAILED)
    policy = draft.job.spec.run_policy
    if policy is not None and policy.ttl_seconds_after_finished is not None:
        draft.requeue_in(max(policy.ttl_seconds_after_finished, 0))
