"""What is deleted of a job that has ended or is suspended, and when the job itself goes.

`cleanPodPolicy` as in the Go operator: All deletes every pod and service, Running those pods that are still active
and the services that no finished pod is left behind, None nothing. One deliberate difference: after a *failure* None
acts like Running. A parameter server that waits for a worker that failed for good would hold its node for ever; the
finished pods stay for their logs either way. The PodGroup goes in any case, as there: nothing is scheduled any more.
"""

from __future__ import annotations

from tfoperator.api.names import replica_of
from tfoperator.api.v1.types import CleanPodPolicy, ConditionType, RunPolicy, TFJobStatus
from tfoperator.controller.actions import DeleteReason
from tfoperator.controller.conditions import find_condition
from tfoperator.controller.draft import Draft
from tfoperator.controller.times import seconds_between
from tfoperator.kube.objects import Pod

__all__ = ["clean_up_finished", "delete_everything", "expire"]


def clean_up_finished(draft: Draft, *, failed: bool) -> None:
    """Delete what a finished job no longer needs, and free its pods from lost nodes."""
    policy = (draft.job.spec.run_policy or RunPolicy()).clean_pod_policy
    draft.free_lost_pods()
    draft.delete_pod_group(DeleteReason.FINISHED)
    if policy == CleanPodPolicy.ALL:
        delete_everything(draft, DeleteReason.FINISHED)
    elif policy == CleanPodPolicy.RUNNING or failed:
        kept = set()
        for pod in draft.observed.pods:
            if _is_active(pod):
                draft.delete_pod(pod, DeleteReason.FINISHED)
            else:
                kept.add(replica_of(pod.metadata.labels))
        for service in draft.observed.services:
            if replica_of(service.metadata.labels) not in kept:
                draft.delete_service(service, DeleteReason.FINISHED)


def delete_everything(draft: Draft, reason: DeleteReason) -> None:
    """Delete all pods and services of the job, and its PodGroup."""
    draft.delete_pod_group(reason)
    for pod in draft.observed.pods:
        draft.delete_pod(pod, reason)
    for service in draft.observed.services:
        draft.delete_service(service, reason)


def expire(draft: Draft, status: TFJobStatus) -> None:
    """Delete the job once `ttlSecondsAfterFinished` has passed since its end, or plan again when it will have."""
    ttl = (draft.job.spec.run_policy or RunPolicy()).ttl_seconds_after_finished
    if ttl is None:
        return
    ended = status.completion_time
    for condition in (ConditionType.SUCCEEDED, ConditionType.FAILED):
        # The Go operator can leave completionTime empty.
        found = find_condition(status.conditions, condition)
        if ended is None and found is not None and found.status == "True":
            ended = found.last_transition_time
    left = 0.0 if ended is None else max(ttl, 0) - seconds_between(ended, draft.now)
    if left <= 0:
        draft.delete_job = True
    else:
        draft.requeue_in(left)


def _is_active(pod: Pod) -> bool:
    # What is neither finished nor certain to be is stopped: a pending pod would run one day.
    return pod.status.phase not in ("Succeeded", "Failed")
