"""Stops or deletes the objects of a job that has ended or is suspended; deletes the job when its time to live is over.

`cleanPodPolicy` is as in the Go operator. `All` deletes every pod and service. `Running` deletes the pods that are
still active, and the services that belong to no finished pod. `None` deletes nothing. There is one exception: if a
limit ended the job (a deadline, `backoffLimit`), `None` stops the running pods in the way that is described below,
because a job whose time is over must not continue to train.

Under each policy except `All`, a pod is stopped if its container `tensorflow` has ended but other containers still run.

If the policy is unset and an administrator has set no default, the operator frees the machines and keeps the logs. To
do this, it *stops* pods by a short `activeDeadlineSeconds`: the kubelet ends such a pod, and the pod's object and log
stay. Services stay, too.

- After a failure, all running pods are stopped. Otherwise parameter servers, and workers that wait for a worker that
  has failed for good, would occupy their nodes for ever.
- After a success, workers and evaluators may finish (an evaluator may still have to process the last checkpoint). If
  the program of a worker or evaluator has ended after the job's end, and the kubelet restarts the program, the replica
  has finished: its pod is stopped, because otherwise the pod would occupy its node for ever. Parameter servers and the
  data service never end by themselves: they are stopped when no other replica of the job runs. Replicas on a lost node
  don't count as running.
- Pods that have not begun have no work to finish. If such a pod has no node, it is deleted and not stopped: the time of
  `activeDeadlineSeconds` begins only when a kubelet has seen the pod, so without a kubelet the pod would never end.
  Such pods have no logs. If such a pod has a node, it is stopped, because it may have begun in the meantime.

The PodGroup is always deleted, as in the Go operator, because no more pods of the job are scheduled.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tfoperator.api.kueue.queues import MULTIKUEUE_ORIGIN_LABEL
from tfoperator.api.pods.lost_nodes import node_is_lost
from tfoperator.api.replicas.left_running import left_running, left_running_text
from tfoperator.api.replicas.names import is_data_service, is_server, replica_name
from tfoperator.api.replicas.replica_pods import ENDED_PHASES, is_ending, outlives_training, replica_phase
from tfoperator.api.v1.choices import CleanPodPolicy, Network
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import ended_by_limit
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import JobCondition, find_condition
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.facts.facts import Facts, Stage
from tfoperator.controller.plan.facts.proposal import Act, LookAgain, Want, delete, event, stop
from tfoperator.controller.plan.pod_ends.restart import CLOCK_SKEW, any_begun
from tfoperator.controller.plan.replicas.held_resources import program_of, termination_of
from tfoperator.controller.plan.values.actions import Delete, DeleteReason, Patch, PhaseName, StopReason
from tfoperator.controller.plan.values.observed import clean_pod_policy
from tfoperator.kube.views.objects import Pod

_LEAVE_RUNNING = ("", CleanPodPolicy.NONE)
"""The policies under which pods may still run after the job's success."""


def clean_up(facts: Facts) -> Iterator[Want]:
    """Stop or delete the objects that a job no longer needs when it ends, or after it has ended."""
    policy = clean_pod_policy(facts.job, facts.options)
    if policy == CleanPodPolicy.ALL:
        yield from delete_everything(facts, DeleteReason.FINISHED)
        return
    yield from delete("podgroups", facts.observed.pod_group, DeleteReason.FINISHED)
    acts = [*_end_outliving(facts), *_end_active(facts, policy)]
    yield from acts
    if facts.verdict.stage is Stage.SUCCEEDED and policy in _LEAVE_RUNNING:
        ended = {act.action.uid for act in acts if isinstance(act.action, Delete | Patch)}
        left = [pod for pod in left_running(facts.observed.pods) if not (is_ending(pod) or pod.metadata.uid in ended)]
        if left:
            yield event(JobReason.PODS_LEFT_RUNNING, f"The job has succeeded. {left_running_text(left)}.")


def release_everything(facts: Facts) -> Iterator[Want]:
    """Delete the pods, services and PodGroup of a suspended job, which must not occupy resources."""
    yield from delete_everything(facts, DeleteReason.SUSPEND)


def delete_everything(facts: Facts, reason: DeleteReason) -> Iterator[Act]:
    """Delete all pods and services of the job, and its PodGroup."""
    yield from delete("podgroups", facts.observed.pod_group, reason)
    for pod in facts.observed.pods:
        yield from delete("pods", pod, reason)
    for service in facts.observed.services:
        yield from delete("services", service, reason)


def expire(facts: Facts) -> Iterator[Want]:
    """Delete the job, and with it all of its pods, once its time to live is over.

    The deletion is valid only for the observed version of the job: a user may have extended the time to live, and the
    cache may not show this change yet.
    """
    job = facts.job
    if facts.verdict.stage is not Stage.FINISHED:
        yield LookAgain(job.spec.policy.ttl_seconds_after_finished or 0)
        return
    left = time_to_live_left(job, facts.now)
    if left is None:
        return
    if left > 0:
        yield LookAgain(left)
        return
    meta = job.metadata
    whole_job = Delete(
        kind="tfjobs",
        name=meta.name,
        uid=meta.uid,
        reason=DeleteReason.EXPIRED,
        resource_version=meta.resource_version,
    )
    yield Act(PhaseName.DELETIONS, whole_job)


def time_to_live_left(job: TFJob, now: datetime) -> float | None:
    """Return the seconds until `ttlSecondsAfterFinished` has passed since the job's end; None without a time to live.

    The number is negative afterwards, and 0 if the time of the job's end is unknown.

    For a job that MultiKueue has created in this cluster, the result is None: MultiKueue deletes the job itself after
    it has seen the job's end. If the operator deleted the job earlier, MultiKueue would create the job again.
    """
    if MULTIKUEUE_ORIGIN_LABEL in job.metadata.labels:
        return None
    ttl = job.spec.policy.ttl_seconds_after_finished
    if ttl is None:
        return None
    ended = job.status.completion_time
    for condition in (ConditionType.SUCCEEDED, ConditionType.FAILED):
        # The Go operator can leave completionTime empty.
        present = find_condition(job.status.conditions, condition)
        if ended is None and present is not None and present.status == "True":
            ended = present.last_transition_time
    return 0.0 if ended is None else max(ttl, 0) - seconds_between(ended, now)


def _end_outliving(facts: Facts) -> Iterator[Act]:
    for pod in facts.observed.pods:
        if outlives_training(pod):
            yield from stop(pod, StopReason.REPLICA_ENDED)


def _end_active(facts: Facts, policy: str) -> Iterator[Act]:
    failed = _failure(facts)
    if policy == CleanPodPolicy.RUNNING:
        yield from _delete_active(facts)
    elif not policy or (failed is not None and ended_by_limit(failed)):
        yield from _stop_active(facts, failed=failed is not None)
    else:
        yield from _stop_data_service(facts, failed=failed is not None)


def _failure(facts: Facts) -> JobCondition | None:
    """Return the condition Failed of a job that fails now or has failed before; None for any other job."""
    verdict = facts.verdict
    if verdict.failure is not None:
        return JobCondition(ConditionType.FAILED, "True", verdict.reason, verdict.failure)
    return facts.condition(ConditionType.FAILED) if facts.is_true(ConditionType.FAILED) else None


def _delete_active(facts: Facts) -> Iterator[Act]:
    """Delete the pods that run or may still run, and the services that belong to no finished pod.

    If a job has a single service for all replicas, the service stays as long as any pod of the job stays, because the
    pods refer to the service by its name.
    """
    kept = set()
    for pod in facts.observed.pods:
        if _is_active(pod):
            yield from delete("pods", pod, DeleteReason.FINISHED)
        else:
            kept.add(replica_name(pod))
    of_whole_job = facts.options.naming.job(facts.job) if facts.options.network is Network.PER_JOB else None
    for service in facts.observed.services:
        needed = bool(kept) if service.metadata.name == of_whole_job else replica_name(service) in kept
        if not needed:
            yield from delete("services", service, DeleteReason.FINISHED)


def _stop_active(facts: Facts, *, failed: bool) -> Iterator[Act]:
    """Stop pods of an ended job that still run.

    After a failure, stop all pods. After a success, workers that still train may finish. Stop the parameter servers and
    the data service, which never end by themselves, when no other replica runs. Stop each pod that has not begun; if
    the pod has no node, delete it, because only a kubelet can stop a pod.
    """
    reason = StopReason.FAILED if failed else StopReason.SUCCEEDED
    servers, others_run = [], False
    for pod in filter(_is_active, facts.observed.pods):
        begun, server = _has_begun(pod), is_server(pod.metadata.labels)
        others_run |= not server and not node_is_lost(pod)
        if not (begun or pod.spec.node_name):
            yield from delete("pods", pod, DeleteReason.FINISHED, as_seen=True)
        elif failed or not begun or (not server and _has_ended_since(pod, facts.job.status.completion_time)):
            yield from stop(pod, reason)
        elif server:
            servers.append(pod)
    # `others_run` is also true for a pod that this plan deletes or stops, because the pod may have begun since it was
    # observed.
    if not others_run:
        for pod in servers:
            yield from stop(pod, reason)


def _stop_data_service(facts: Facts, *, failed: bool) -> Iterator[Act]:
    """Stop the data service of an ended job with `cleanPodPolicy: None`, if no running replica may still read data.

    `None` keeps only pods of replicas, as in the Go operator, which has no data service.
    """
    active = [pod for pod in facts.observed.pods if _is_active(pod)]
    servers = [pod for pod in active if is_data_service(pod.metadata.labels)]
    if servers and all(is_server(pod.metadata.labels) or node_is_lost(pod) for pod in active):
        for pod in servers:
            yield from stop(pod, StopReason.FAILED if failed else StopReason.SUCCEEDED)


def _is_active(pod: Pod) -> bool:
    # A pending pod counts as active, too, because it would run later.
    return replica_phase(pod) not in ENDED_PHASES


def _has_begun(pod: Pod) -> bool:
    """Return whether a container or init container of the pod has ever run."""
    status = pod.status
    return status.phase not in ("Pending", "") or any_begun(status)


def _has_ended_since(pod: Pod, completion: datetime | None) -> bool:
    """Return whether the pod's training container ended after the job's end, and the kubelet restarts it.

    For a pending pod, check its init containers instead.
    """
    status = pod.status
    for container in status.init_container_statuses if status.phase == "Pending" else (program_of(pod),):
        before = termination_of(container, last=True)
        if completion is None or before is None or before.finished_at is None:
            continue
        if seconds_between(completion, before.finished_at) > CLOCK_SKEW:
            return True
    return False
