"""The metrics of a job's training by step: from the progress in its status, whenever that changes. No I/O.

A status has the newest report of the one replica that speaks for the job, and its time; the values of another replica
are independent of it. So each replica's values are a curve of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tfoperator.api.v1.status import TrainingProgress

MAX_POINTS = 1000
"""Points of a curve; beyond it, every second point of the older half is dropped."""
MAX_CURVES = 32
"""Curves of a job: the first so many are kept."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A metric's value at a time (seconds since 1970) and at a step (-1: unknown)."""

    time: float
    value: float
    step: int = -1


class Curves:
    """The curves of one job. Not thread-safe.

    If a program goes on from an earlier step, the new points replace the old points of the repeated steps. If a value
    stays the same, its first and its last point are kept.
    """

    def __init__(self, points: Mapping[str, list[Point]] | None = None) -> None:
        """Start with these points."""
        self._points = dict(points or {})
        self._reported: object = None
        self._first: str | None = None  # the replica that reported first

    def add(self, progress: TrainingProgress, now: datetime) -> None:
        """Add the values of `status.progress`, unless they equal the values of the last call."""
        replica, when = progress.replica, progress.report_time or progress.last_updated_time
        step = -1 if progress.step is None else progress.step
        values = [(one.name, number_of(one.value)) for one in progress.metrics]
        report = (replica, when, step, values)
        if not values or report == self._reported:
            return
        self._reported = report
        self._first = replica if self._first is None else self._first
        suffix = "" if replica == self._first else f" ({replica})"
        for name, value in values:
            if value is not None:
                self._append(name + suffix, Point((when or now).timestamp(), value, step))

    def points(self) -> dict[str, list[Point]]:
        """Return the curves by metric, the oldest point first; a second replica's are named `loss (worker-1)`."""
        return {name: list(points) for name, points in self._points.items()}

    def _append(self, name: str, point: Point) -> None:
        if name not in self._points and len(self._points) >= MAX_CURVES:
            return
        points = self._points.setdefault(name, [])
        while points and points[-1].step >= point.step >= 0:
            points.pop()
        if len(points) > 1 and points[-1].value == points[-2].value == point.value:
            points.pop()
        points.append(point)
        if len(points) > MAX_POINTS:
            half = MAX_POINTS // 2
            points[:half] = points[:half:2]


def number_of(value: object) -> float | None:
    """Return a number that a report has as text or number; None (also for `nan`) if it can't be a point of a curve."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if number - number == 0 else None
