"""Judges the counts of a job that has just ended, where its operator saw everything at once: docs/tfjob.md.

`failed` and `succeeded` count replicas that had ended. After a success what still ran counts as succeeded; after a
failure it counts as active where a clean-up policy is set. The failure that ended the job is no restart.
"""

from __future__ import annotations

from collections.abc import Iterator

from hack.faults.oracle.history import JobHistory


def check_counts_at_end(job: JobHistory) -> Iterator[str]:
    """Yield what is wrong with the counts."""
    statuses = job.status.get("replicaStatuses") or {}
    for kind in job.spec["tfReplicaSpecs"]:
        phases = [_phase(job, kind, index) for index in range(job.size(kind))]
        if "?" in phases:
            continue
        ran, well = phases.count("Running"), phases.count("Succeeded")
        succeeded = job.verdict == "Succeeded"
        wanted = {
            "active": ran if not succeeded and job.clean_policy else 0,
            "succeeded": well + (ran if succeeded else 0),
            "failed": phases.count("Failed"),
        }
        counted = {name: statuses.get(kind, {}).get(name, 0) for name in wanted}
        if counted != wanted:
            yield f"it has {job.verdict}, and counts {counted} {kind}, and should {wanted}"
    limit = job.run_policy.get("backoffLimit")
    if limit is not None and job.failures > int(limit):
        yield f"it has {job.verdict}, and counts {job.failures} failures of {limit}"
    counts = job.counts()
    for pod in job.living():
        restarts, found_restarts = pod.base + pod.in_place, counts.get(pod.replica, 0)
        if not pod.deleting and found_restarts not in (restarts, restarts - bool(pod.in_place)):
            yield f"it has {job.verdict}, and counts {found_restarts} restarts of {pod.name}, which is its {restarts}."


def _phase(job: JobHistory, kind: str, index: int) -> str:
    """Return the last phase of a replica; ? if its pod goes or is lost, for which a status has several right values."""
    key = (kind, index)
    if key in job.completed():
        return "Succeeded"
    pods = [pod for pod in job.living(key) if not pod.deleting]
    if key in job.failed():
        return "Failed"
    if not pods:
        return "?" if job.living(key) else "Pending"
    is_known = pods[0].exit_code is not None or not pods[0].infrastructure
    return "?" if pods[0].in_place or pods[0].phase == "Unknown" or not is_known else pods[0].phase
