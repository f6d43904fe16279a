"""Why the operator may delete a pod or a service of a job."""

from __future__ import annotations

from collections.abc import Collection

from hack.faults.oracle.history import JobHistory, PodHistory, ReplicaKey, ServiceHistory
from hack.faults.oracle.moved import moves


def give_reasons_to(job: JobHistory, child: PodHistory | ServiceHistory) -> None:
    """Note whether the operator may delete the child from now on, as far as the job's present state decides it."""
    if job.gone or job.obj["metadata"].get("deletionTimestamp"):
        child.reasons.add("job deleted")
    if job.suspended:
        child.reasons.add("suspended")
    if isinstance(child, PodHistory) and child.number < job.job_restarts:
        child.reasons.add("all restart")
    if isinstance(child, PodHistory) and child.phase == "Running" and job.restarts_when_stalled:
        child.reasons.add("stalled")
    if isinstance(child, PodHistory) and child.phase == "Running" and moves(job, child):
        child.reasons.add("moved")
    if child.replica is not None and child.replica[1] >= job.size(child.replica[0]):
        child.reasons.add("scaled down")
    if job.verdict and job.clean_policy in ("All", "Running"):
        child.reasons.add("finished")


def note_doubles(job: JobHistory, replica: ReplicaKey, doubles: Collection[str]) -> None:
    """Note that the less advanced of two pods (or two services) of a replica goes; `doubles` are UIDs."""
    pods = job.living(replica)
    if any(living_pod.uid in doubles for living_pod in pods):
        for pod in pods:
            if pod.uid in doubles or pod.phase not in ("Running", "Succeeded"):
                pod.reasons.add("twice")
        for service in job.services.values():
            if service.replica == replica:
                service.reasons.add("twice")
