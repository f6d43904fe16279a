"""Judges the time in a job's status at the end, by docs/usage.md. `hack.usage_plans` judges each second."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hack.faults.journal import Journal
from hack.faults.oracle.history import JobHistory
from hack.faults.oracle.queues import is_held

_INEXACT = 2.0
"""Seconds: timestamps are of whole seconds."""

_INEXACT_CPU = 0.001


def check_usage(job: JobHistory, journal: Journal) -> Iterator[str]:
    """Yield what is wrong: each second is in one phase, and at rest phase and amounts are right for the job."""
    usage = job.status.get("usage")
    if not usage:
        return  # of a job that an older operator has led
    created, since = (
        datetime.fromisoformat(moment) for moment in (job.obj["metadata"]["creationTimestamp"], usage["since"])
    )
    spent, passed = sum((usage.get("seconds") or {}).values()), (since - created).total_seconds()
    if abs(spent - passed) > _INEXACT:
        yield f"its usage has {spent} seconds of {passed:.0f}"
    phase = usage.get("phase")
    held = {name: amounts.get("inUse") for name, amounts in (usage.get("resources") or {}).items()}
    if job.verdict and phase:
        yield f"it has ended, and its usage is {phase}"
    if job.verdict:
        return
    if job.suspended and phase != "suspended":
        yield f"it is suspended, and its usage is {phase}"
    elif is_held(job) and phase != "queued":
        yield f"it waits in its queue, and its usage is {phase}"
    elif not job.suspended and job.holds("Ready"):
        if not job.status.get("progress") and phase != "training":
            yield f"all its replicas run, and its usage is {phase}"
        wanted = _requested_cpu(job, journal)
        if abs((held.get("cpu") or 0) - wanted) > _INEXACT_CPU:
            yield f"its pods that run request {wanted} cpu, and its usage holds {held.get('cpu')}"


def _requested_cpu(job: JobHistory, journal: Journal) -> float:
    """Return the CPU requests of pods whose programs run; only in the form of scenarios, in thousandths."""
    running = {pod.uid for pod in job.living() if pod.phase == "Running" and not pod.runs_on}
    last = {entry.uid: entry.obj for entry in journal.entries if entry.uid in running}
    requests = [
        str(((container.get("resources") or {}).get("requests") or {}).get("cpu") or "0m")
        for pod in last.values()
        for container in pod["spec"]["containers"]
    ]
    return sum(int(request.removesuffix("m")) / 1000 for request in requests)
