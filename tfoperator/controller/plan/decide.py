"""Decides everything that happens to a TFJob: values in, value out.

`plan()` has no clock, no client and no log, so its behaviour can be tested by tables and properties, and a sync is
"look, decide, act" with all the deciding in one place. It is level-triggered: it looks at the whole observed state,
never at what just happened, so a missed event or a crash between two actions changes nothing but the time.

Read it from top to bottom as the life of a job: not ours, ended, invalid, suspended, active, and how it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from itertools import chain

import msgspec

from tfoperator.api.limits import MANAGED_BY_OPERATOR, MAX_REPLICAS
from tfoperator.api.names import LABEL_TENSORBOARD
from tfoperator.api.templates import is_absent
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.api.validation.job import long_names
from tfoperator.controller.plan.actions import DeleteReason, Plan
from tfoperator.controller.plan.cleanup import (
    clean_up_finished,
    delete_everything,
    report_left_running,
    time_to_live_left,
)
from tfoperator.controller.plan.conditions import is_finished
from tfoperator.controller.plan.divergence import report_divergence
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.facts import Facts, Stage
from tfoperator.controller.plan.invalid import plan_invalid
from tfoperator.controller.plan.look import is_suspended, look
from tfoperator.controller.plan.observed import Observed, PlanOptions, with_own_deletions
from tfoperator.controller.plan.progress import NOT_WATCHED, pods_to_look_into
from tfoperator.controller.plan.reporting import (
    report_end,
    report_progress,
    report_suspension,
    watch_progress,
)
from tfoperator.controller.plan.restart import overdue_seconds
from tfoperator.controller.plan.scaling import plan_replicas, report_edits
from tfoperator.controller.plan.status import build_status, status_after_end
from tfoperator.controller.plan.stragglers import report_stragglers
from tfoperator.controller.plan.tensorboard import TensorBoardObjects, plan_tensorboard, split_tensorboard
from tfoperator.controller.plan.usage import account, with_goodput
from tfoperator.controller.pods.naming import PLAIN_NAMES, is_service_of, naming_in_use, network_in_use
from tfoperator.controller.pods.template import PodTemplateError
from tfoperator.kube.objects import HasMetadata


def plan(observed: Observed, now: datetime, options: PlanOptions) -> Plan:
    """Return the plan for the job at `now` (UTC), whatever the job or its pods look like.

    Raises NotKept alone: it takes a template of which the job has a hash.
    """
    job = observed.job
    if job.metadata.deletion_timestamp is not None or is_managed_by_others(job):
        # A deleted job's pods and services go with it: the garbage collector follows the owner references.
        return Plan(status=job.status)
    observed, tensorboard = _without_strangers(with_own_deletions(observed, now)), None
    if _has_tensorboard(observed):
        observed, tensorboard = split_tensorboard(observed)
    options = _as_started(observed, options)
    draft = Draft(observed, now, options)
    try:
        if is_finished(job.status.conditions):
            status = _plan_finished(draft, tensorboard)
        else:
            status = _plan_unfinished(draft, tensorboard)
    except PodTemplateError as error:
        # A new draft: no part of the half-made plan may be carried out.
        draft = Draft(observed, now, options)
        status = plan_invalid(draft, (str(error),))
    return with_goodput(draft.finish(status), now)


def is_managed_by_others(job: TFJob) -> bool:
    """Return whether `runPolicy.managedBy` gives the job to another controller."""
    return (job.spec.policy.managed_by or MANAGED_BY_OPERATOR) != MANAGED_BY_OPERATOR


def _without_strangers(observed: Observed) -> Observed:
    """Return the same without services that only look like the job's: an older operator may have adopted them."""
    own = [one for one in observed.services if is_service_of(observed.job, one.metadata)]
    return observed if len(own) == len(observed.services) else msgspec.structs.replace(observed, services=tuple(own))


def _has_tensorboard(observed: Observed) -> bool:
    """Return whether the job has a TensorBoard, or asks for one, or had one until now."""
    job = observed.job
    if job.spec.tensor_board is not None or job.status.tensor_board is not None or observed.deployments:
        return True
    return any(True for one in observed.services if LABEL_TENSORBOARD in one.metadata.labels)


def _as_started(observed: Observed, options: PlanOptions) -> PlanOptions:
    """Return the options with the job's own naming and network: the operator's are for jobs that have none yet."""
    job, pods, services = observed.job, observed.pods, observed.services
    objects: Iterable[HasMetadata] = chain(services, pods)
    naming = naming_in_use(job, objects, options.naming)
    network = network_in_use(job, pods, services, naming.job(job), options.network)
    if naming is options.naming and network is options.network:
        return options
    return msgspec.structs.replace(options, naming=naming, network=network)


def _unusable(job: TFJob, options: PlanOptions) -> tuple[str, ...]:
    """Return the problems that prevent any action on the spec: from options, or possibly missed by validation."""
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


def _plan_finished(draft: Draft, tensorboard: TensorBoardObjects | None) -> TFJobStatus:
    """Plan a finished job: clean up its pods, delete it in time; its TensorBoard stays until then."""
    job = draft.job
    left = time_to_live_left(job, draft.now)
    if left is not None and left <= 0:
        draft.delete_job()
        return job.status
    if left is not None:
        draft.requeue_in(left)
    # The clean-up policy of an unreadable spec is unfacts.
    if not job.decode_error:
        _free_lost_pods(draft)
        clean_up_finished(draft)
    if tensorboard is not None and not draft.observed.problems:
        plan_tensorboard(draft, tensorboard)
    return status_after_end(job, draft.conditions)


def _plan_unfinished(draft: Draft, tensorboard: TensorBoardObjects | None) -> TFJobStatus:
    """Plan a job that has not ended: it is invalid, or ends now, or is held and releases everything, or goes on.

    Raises PodTemplateError if no pod can be made from a template.
    """
    job = draft.job
    suspended = is_suspended(draft.observed)
    problems = draft.observed.problems or _unusable(job, draft.options)
    # A suspended job must release its resources, whether the rest of its spec makes sense or not.
    if problems and not (suspended and job.status.start_time is not None):
        return plan_invalid(draft, problems)
    if not problems and tensorboard is not None:
        plan_tensorboard(draft, tensorboard, suspended=suspended)
    facts = look(draft.observed, draft.now, draft.options)
    draft.absent += facts.absent
    match facts.verdict.stage:
        case Stage.SUCCEEDED | Stage.FAILED:
            _plan_end(draft, facts)
        case Stage.SUSPENDED:
            _plan_suspended(draft, facts)
        case Stage.ACTIVE:
            _plan_active(draft, facts)
    usage = account(facts, stalled=draft.conditions.is_true(ConditionType.STALLED))
    return build_status(facts, draft.conditions, usage)


def _free_lost_pods(draft: Draft) -> None:
    """Force the deletion of pods on a lost node that are past their grace period: no kubelet will confirm their end."""
    for pod in draft.observed.pods:
        overdue = overdue_seconds(pod, draft.now, draft.options)
        if overdue is None:
            continue
        if overdue >= 0:
            draft.delete("pods", pod, DeleteReason.NODE_LOST, grace=0)
        else:
            draft.requeue_in(-overdue)


def _plan_active(draft: Draft, facts: Facts) -> None:
    """Plan an active job: bring its pods and services to its spec. Raises PodTemplateError."""
    _free_lost_pods(draft)
    if facts.resumed or facts.restart.causes or any(group.has_new_disruption for group in facts.groups):
        # Before a pod is created, which could be taken for an old one, or lost before its predecessor is counted.
        draft.write_status_first()
    if facts.held > 0:
        draft.requeue_in(facts.held)
    plan_replicas(draft, facts)
    report_progress(draft, facts)
    if facts.observed.edited_templates:
        report_edits(draft, facts.groups)
    if facts.stall is not NOT_WATCHED or draft.conditions.get(ConditionType.STALLED) is not None:
        watch_progress(draft, facts.stall)
    reported, before = facts.observed.reported, draft.conditions.get(ConditionType.STRAGGLING)
    if (reported is not None and reported.slow) or before is not None or facts.node_failures:
        report_stragglers(draft, facts)
    diverged = draft.conditions.get(ConditionType.DIVERGED) is not None
    if diverged or (reported is not None and reported.loss_not_a_number):
        report_divergence(draft, facts)
    if (to_start := facts.start_left) is not None:
        draft.requeue_in(to_start)
    if facts.left_for_stacks is not None:
        draft.stacks += pods_to_look_into(facts.groups)
        draft.requeue_in(facts.left_for_stacks)
    elif facts.deadline_left is not None:
        draft.requeue_in(facts.deadline_left)


def _plan_suspended(draft: Draft, facts: Facts) -> None:
    """Release all objects of a suspended job."""
    report_suspension(draft, facts.groups)
    _free_lost_pods(draft)
    delete_everything(draft, DeleteReason.SUSPEND)


def _plan_end(draft: Draft, facts: Facts) -> None:
    """Record the job's end, which never changes again, and clean up."""
    report_end(draft, facts.groups, facts.verdict)
    _free_lost_pods(draft)
    clean_up_finished(draft)
    if facts.verdict.failure is None:
        report_left_running(draft)
    ttl = draft.job.spec.policy.ttl_seconds_after_finished
    if ttl is not None:
        draft.requeue_in(max(ttl, 0))
