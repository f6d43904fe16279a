"""Whether a job's history gives it a reason to have succeeded or failed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from hack.faults.oracle.history import CHIEFS, JobHistory, ReplicaKey
from hack.faults.oracle.thresholds import enough_succeeded, too_many_failed

Json = dict[str, Any]


def why_succeeded(job: JobHistory) -> bool:
    """Whether what has ended well is enough, by any spec that the job has had."""
    well = {pod.replica for pod in job.pods.values() if pod.ended_well}
    failed = _may_have_failed(job) - well

    def done(spec: Json, kinds: list[str]) -> bool:
        return all((kind, index) in well for kind in kinds for index in range(job.size(kind, spec)))

    for spec in job.specs:
        present = [kind for kind in spec["tfReplicaSpecs"] if job.size(kind, spec) > 0]
        chiefs = [kind for kind in present if kind in CHIEFS]
        if "Worker" in present and (not chiefs or spec.get("minSucceededWorkers") is not None):
            size = job.size("Worker", spec)
            enough = enough_succeeded(spec, size, _workers(well, size), _workers(failed, size))
        else:
            enough = bool(present) and not waits_for_leaders(spec, present) and done(spec, chiefs or present)
        if enough:
            return True
    return False


def waits_for_leaders(spec: Json, present: Collection[str]) -> bool:
    """Whether the job has workers or chiefs, all of which are scaled to nothing; `present` are types that are not."""
    leaders = {"Worker", *CHIEFS} & spec["tfReplicaSpecs"].keys()
    return bool(leaders) and leaders.isdisjoint(present)


def why_failed(job: JobHistory, clock_stepped: bool) -> bool:
    """Whether a replica, too many workers, too many failures or too much time are a reason, by any spec it has had."""
    if job.conditions()["Failed"].get("reason") == "TFJobInvalid":
        # A new process with an older list can't know of pods that are in no status.
        return "startTime" not in job.status and any(map(makes_no_sense, job.specs))
    well = {pod.replica for pod in job.pods.values() if pod.ended_well}
    failed = _may_have_failed(job)
    if any(kind != "Worker" for kind, _ in failed):
        return True
    for spec in job.specs:
        size, led = job.size("Worker", spec), any(job.size(kind, spec) for kind in CHIEFS)
        if too_many_failed(spec, size, _workers(well, size), _workers(failed, size), led=led):
            return True
    limit = job.run_policy.get("backoffLimit")
    if limit is not None and job.most_failures() > int(limit):
        return True
    if job.conditions()["Failed"].get("reason") == "ProgressDeadlineExceeded":
        return job.run_policy.get("onStall") == "Fail" and (clock_stepped or _is_overdue(job))
    deadline = job.run_policy.get("activeDeadlineSeconds")
    return deadline is not None and (clock_stepped or _active_seconds(job) >= int(deadline))


def makes_no_sense(spec: Json) -> bool:
    """Whether something else is mounted where a job wants its checkpoints; scenarios make no other mistake."""
    path = (spec.get("checkpoint") or {}).get("mountPath")
    templates = (replica_spec.get("template", {}).get("spec", {}) for replica_spec in spec["tfReplicaSpecs"].values())
    containers = (container for template in templates for container in template.get("containers") or ())
    mounted = {mount["mountPath"] for container in containers for mount in container.get("volumeMounts") or ()}
    return path is not None and path in mounted


def _is_overdue(job: JobHistory) -> bool:
    """Whether it had made no progress for its deadline when it ended."""
    allowed, reported = job.run_policy.get("progressDeadlineSeconds"), job.status.get("progress") or {}
    last, end = reported.get("lastUpdatedTime"), job.status.get("completionTime")
    if allowed is None or not last or not end:
        return False
    return (datetime.fromisoformat(end) - datetime.fromisoformat(last)).total_seconds() >= int(allowed)


def _may_have_failed(job: JobHistory) -> set[ReplicaKey]:
    """The replicas that may count as failed for good."""
    return {pod.replica for pod in job.pods.values() if pod.failed_for_good(job.policy(pod.replica[0]))}


def _workers(replicas: set[ReplicaKey], size: int) -> set[int]:
    """Return the indexes of the workers among these replicas, if they are below the number of workers."""
    return {index for kind, index in replicas if kind == "Worker" and index < size}


def _active_seconds(job: JobHistory) -> float:
    start, end = job.status.get("startTime"), job.status.get("completionTime")
    if not start or not end:
        return 0.0
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
