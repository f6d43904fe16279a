"""The metrics of a job's training as curves over the steps, made from the successive values of `status.progress`.

`status.progress` has the newest report of a single replica. This replica may change: if `worker-0` sends no more
reports, `status.progress` has the reports of `worker-1`. The values of two replicas are independent. So each replica
has its own curves. The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tfoperator.api.v1.parts.progress import TrainingProgress

MAX_POINTS = 1000
"""The maximum number of points of a curve. If it has more points, every second point of its older half is dropped."""
MAX_CURVES = 32
"""The maximum number of curves of a job. The first curves are kept."""


class Point(msgspec.Struct, frozen=True, array_like=True):
    """The value of a metric at a time (seconds since 1970) and at a step (-1 if the step is unknown)."""

    time: float
    value: float
    step: int = -1


class Curves:
    """The curves of one job. Not thread-safe.

    If a program continues from an earlier step (a checkpoint), the points of the later steps are removed, and the new
    points follow. If a value stays the same, only the first and the last point with this value are kept. There are at
    most `MAX_CURVES` curves. If a curve has more than `MAX_POINTS` points, every second point of its older half is
    removed.
    """

    def __init__(self, points: Mapping[str, list[Point]] | None = None) -> None:
        """Start with these points."""
        self._points = dict(points or {})
        self._reported: object = None
        self._first: str | None = None  # the replica that reported first

    def add(self, progress: TrainingProgress, now: datetime) -> None:
        """Add the metrics in `progress` as points, unless `progress` is the same report as at the last call.

        If the report has no time, use `now`.
        """
        replica, when = progress.replica, progress.report_time or progress.last_updated_time
        step = -1 if progress.step is None else progress.step
        values = [(metric.name, number_of(metric.value)) for metric in progress.metrics]
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
        """Return the curves by metric, with the oldest point first.

        The curves of a second replica have names such as `loss (worker-1)`.
        """
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
    """Return the value of a metric, which is a text or a number, as a float.

    Return None for NaN, infinity and texts that contain no number: these can't be points of a curve.
    """
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if number - number == 0 else None
