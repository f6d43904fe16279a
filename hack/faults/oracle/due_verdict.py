"""The verdict that a job must have by now, Succeeded or Failed, by its spec and what its replicas have done."""

from __future__ import annotations

from hack.faults.oracle.history import CHIEFS, JobHistory
from hack.faults.oracle.thresholds import enough_succeeded, too_many_failed
from hack.faults.oracle.verdicts import waits_for_leaders


def due_verdict(job: JobHistory) -> str:
    """Return the verdict that the job must have by now, if it must have ended."""
    completed = job.completed()
    present = [kind for kind in job.spec["tfReplicaSpecs"] if job.size(kind)]
    chiefs = [kind for kind in present if kind in CHIEFS]

    def done(kinds: list[str]) -> bool:
        return all((kind, index) in completed for kind in kinds for index in range(job.size(kind)))

    if "Worker" in present and (not chiefs or job.spec.get("minSucceededWorkers") is not None):
        succeeded = enough_succeeded(job.spec, job.size("Worker"), *_workers(job))
    else:
        succeeded = bool(present) and not waits_for_leaders(job.spec, present) and done(chiefs or present)
    if succeeded:
        return "Succeeded"
    limit = job.run_policy.get("backoffLimit")
    if limit is not None and job.failures > int(limit):
        return "Failed"
    return "Failed" if not job.suspended and _has_failed_replica(job, bool(chiefs)) else ""


def _has_failed_replica(job: JobHistory, led: bool) -> bool:
    others = [kind for kind in job.spec["tfReplicaSpecs"] if kind != "Worker"]
    if any(_failed(job, kind, index) for kind in others for index in range(job.size(kind))):
        return True
    return too_many_failed(job.spec, job.size("Worker"), *_workers(job), led=led)


def _workers(job: JobHistory) -> tuple[set[int], set[int]]:
    """The workers that have completed, and those that have failed for good."""
    workers = range(job.size("Worker"))
    completed = {index for index in workers if ("Worker", index) in job.completed()}
    return completed, {index for index in workers if _failed(job, "Worker", index)}


def _failed(job: JobHistory, kind: str, index: int) -> bool:
    key, policy = (kind, index), job.policy(kind)
    if key in job.completed():
        return False
    return key in job.failed() or any(pod.failed_for_good(policy) and not pod.deleting for pod in job.living(key))
