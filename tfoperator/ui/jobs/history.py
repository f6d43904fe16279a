"""Data that an API server does not keep: deleted pods, earlier runs of containers, earlier values of metrics.

It is recorded from the first page on, within bounds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from cachetools import FIFOCache, LRUCache

from tfoperator.ui.jobs.objects import SeenPod
from tfoperator.ui.jobs.timeline import PodRecord, observe

MAX_JOBS = 5000
"""Maximum number of jobs with a history; the one that changed longest ago is dropped first."""
MAX_PODS = 2000
"""Pods per job, including present ones."""
MAX_RUNS = 50
"""Runs per pod: the latest."""
MAX_POINTS = 1000
"""Values per metric; beyond it, every second one of the older half is dropped."""
MAX_METRICS = 32
"""Metrics per job: the first ones reported."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A metric's value at a time (seconds since 1970), at a percentage of the job (-1: unknown)."""

    time: float
    value: float
    percent: float = -1.0


class _Memory:
    def __init__(self) -> None:
        self.pods: FIFOCache[str, PodRecord] = FIFOCache(MAX_PODS)  # by uid
        self.metrics: dict[str, list[Point]] = {}
        self.reported = ""


class History:
    """Histories of jobs, by the job's UID. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _jobs and its values
        self._jobs: LRUCache[str, _Memory] = LRUCache(MAX_JOBS)

    def saw_pod(self, job_uid: str, pod: SeenPod, replica: str, now: datetime) -> None:
        """Record the pod's present and last run."""
        with self._lock:
            pods = self._of(job_uid).pods
            record = observe(pod, replica, pods.get(pod.metadata.uid), now)
            pods[record.uid] = _bounded(record)

    def lost_pod(self, job_uid: str, pod_uid: str, now: datetime) -> None:
        """Record that the pod was deleted."""
        with self._lock:
            pods = self._of(job_uid).pods
            record = pods.get(pod_uid)
            if record is not None:
                pods[pod_uid] = msgspec.structs.replace(record, gone=now)

    def saw_progress(self, job_uid: str, progress: Mapping[str, Any], now: datetime) -> None:
        """Record the metrics of a new report."""
        when = str(progress.get("lastUpdatedTime") or "")
        values = [(m["name"], _number(m.get("value"))) for m in _metrics(progress)]
        if not values:
            return
        percent = _number(progress.get("progressPercentage", progress.get("percentage")))
        with self._lock:
            memory = self._of(job_uid)
            said = f"{when} {values}"
            if memory.reported == said:
                return
            memory.reported = said
            at = _seconds(when, now)
            for name, value in values:
                if value is None or (name not in memory.metrics and len(memory.metrics) >= MAX_METRICS):
                    continue
                points = memory.metrics.setdefault(name, [])
                points.append(Point(at, value, -1.0 if percent is None else percent))
                if len(points) > MAX_POINTS:
                    half = MAX_POINTS // 2
                    points[:half] = points[:half:2]

    def pods(self, job_uid: str) -> dict[str, PodRecord]:
        """Return the records of a job's pods, by UID."""
        with self._lock:
            memory = self._jobs.get(job_uid)
            return dict(memory.pods) if memory is not None else {}

    def metrics(self, job_uid: str) -> dict[str, list[Point]]:
        """Return the values of a job's metrics, the oldest first."""
        with self._lock:
            memory = self._jobs.get(job_uid)
            return {name: list(points) for name, points in memory.metrics.items()} if memory is not None else {}

    def _of(self, job_uid: str) -> _Memory:
        return self._jobs.setdefault(job_uid, _Memory())


def _bounded(record: PodRecord) -> PodRecord:
    if len(record.runs) <= MAX_RUNS:
        return record
    latest = sorted(record.runs)[-MAX_RUNS:]
    return msgspec.structs.replace(record, runs={start: record.runs[start] for start in latest})


def _metrics(progress: Mapping[str, Any]) -> list[dict[str, Any]]:
    metrics = progress.get("metrics")
    found = metrics if isinstance(metrics, list) else []
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("name"), str)]


def _number(value: object) -> float | None:
    """Return a number that a report has as text or number; None (also for `nan`) if it can't be a point of a curve."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if number - number == 0 else None


def _seconds(when: str, now: datetime) -> float:
    try:
        return datetime.fromisoformat(when).timestamp()
    except ValueError:
        return now.timestamp()
