"""Judges the number of workers of an elastic job, at each status: docs/reference/elastic.md, "The status"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hack.faults.oracle.history import JobHistory

Json = dict[str, Any]


def check_size(job: JobHistory, before: Json | None) -> Iterator[str]:
    """Yield what is wrong with the number of workers in the status of a job, whose status was different `before`."""
    old, new = _elastic((before or {}).get("status")), _elastic(job.status)
    if not new or old == new:
        return
    wanted = {int((spec["tfReplicaSpecs"].get("Worker") or {}).get("replicas", 1)) for spec in job.specs}
    if new.get("workers") and new.get("wanted") not in wanted:
        yield f"it records {new.get('wanted')} wanted workers, and its spec had {sorted(wanted)}"
    if not old:
        return
    was, now = _number(old), int(new.get("workers") or 0)
    changes = int(new.get("changes") or 0) - int(old.get("changes") or 0)
    if not now:
        if was != _number(new) and not job.suspended and not job.verdict:
            yield f"it had {was} workers when its queue stopped it, and records {_number(new)}"
        return
    if changes != (was not in (0, now)):
        yield f"it goes from {was} to {now} workers, and counts {changes} changes more"
    elif changes:
        job.changes_at_admission += not old.get("workers")
        last = (new.get("resizes") or [{}])[-1]
        if (last.get("before"), last.get("workers"), last.get("reason")) != (was, now, new.get("reason")):
            yield f"it goes from {was} to {now} workers, and its last change is {last}"


def _elastic(status: Json | None) -> Json:
    return dict((status or {}).get("elastic") or {})


def _number(elastic: Json) -> int:
    """Return how many workers the job has, or had until its queue stopped it."""
    return int(elastic.get("workers") or elastic.get("workersBefore") or 0)
