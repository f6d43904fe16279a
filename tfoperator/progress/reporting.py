"""`report` reports the progress of a training once. `Progress` also computes the time left of a loop of steps."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Any

from tfoperator.progress.sender import flush_all, metric_list, sender

_kept: dict[str, object] = {}
"""Metrics that every report contains. A change replaces the whole dictionary, so any thread can read it
without a lock.
"""


def keep_reporting(**metrics: object) -> None:
    """Add metrics to every later report, for example the step that was saved last.

    If one report does not arrive at the server, the next report contains these metrics again.
    """
    global _kept
    _kept = {**_kept, **metrics}


def report(
    *,
    step: int | None = None,
    total_steps: int | None = None,
    percentage: float | None = None,
    remaining_seconds: float | None = None,
    at_once: bool = False,
    **metrics: object,
) -> bool:
    """Report the training's progress.

    All arguments are optional. For an omitted argument, the last value that was sent stays. `percentage` is from 0 to
    100. Without `percentage`, the percentage is computed from the steps. For the percentage and the remaining seconds,
    NaN and infinite numbers count as omitted. `metrics` are numbers or short texts; NaN is allowed. A thread sends at
    most one report in five seconds. Until the thread sends, the values of a new report replace the same values of the
    waiting report, which keeps its other values. With `at_once`, the thread sends this report now.
    Return whether the job requests reports; without a job, return False. The function never raises an exception, and
    never waits for the network.
    """
    to = sender()
    if to is None:
        return False
    done, total = _finite(step), _finite(total_steps)
    share, left = _finite(percentage), _finite(remaining_seconds)
    if percentage is None and done is not None and total:
        share = 100 * done / total
    status: dict[str, Any] = {}
    if share is not None:
        status["progressPercentage"] = int(min(max(share, 0), 100))
    if left is not None:
        status["estimatedRemainingSeconds"] = int(max(left, 0))
    steps = {"current_step": step, "total_steps": total_steps}
    listed = metric_list({**{name: value for name, value in steps.items() if value is not None}, **_kept, **metrics})
    if listed:
        status["metrics"] = listed
    to.put(status, at_once=at_once)
    return True


def _finite(value: Any) -> float | None:
    """Return a number as a float. Return None for NaN, for infinity, and for a value that is not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def flush(timeout: float = 5.0) -> bool:
    """Send pending reports now; return whether they arrived within `timeout` seconds.

    At a program's end, this happens automatically.
    """
    return flush_all(timeout)


class Progress:
    """A context manager for a loop of steps. It computes the percentage and the time left from the calls of `update`.

    The time left is computed from the number of remaining steps and the pace since `initial_step`. If a program
    continues from a checkpoint, `initial_step` is the step of the checkpoint. At the end of the block, the last state
    is sent at once. This state is 100 % only if no exception was raised, and the last step was reached or the number of
    steps was not known.
    """

    def __init__(self, total_steps: int | None = None, *, initial_step: int = 0) -> None:
        self.total_steps = total_steps
        self._initial = self._step = initial_step
        self._began = time.monotonic()
        self._metrics: dict[str, object] = {}

    def __enter__(self) -> Progress:
        self._began = time.monotonic()
        report(step=self._step, total_steps=self.total_steps, percentage=None if self.total_steps else 0, at_once=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        done = kind is None and (self.total_steps is None or self._step >= self.total_steps)
        self._send(percentage=100.0 if done else None, remaining=0.0 if done else None, at_once=True)
        flush_all()

    def update(self, step: int, **metrics: object) -> None:
        """Set the number of completed steps, and report it with these metrics."""
        self._step = step
        self._metrics.update(metrics)
        self._send(percentage=None, remaining=self._remaining(), at_once=False)

    def advance(self, steps: int = 1, **metrics: object) -> None:
        """Add to the number of completed steps, and report it with these metrics."""
        self.update(self._step + steps, **metrics)

    def _remaining(self) -> float | None:
        done = self._step - self._initial
        if not self.total_steps or done <= 0:
            return None
        return (time.monotonic() - self._began) / done * max(self.total_steps - self._step, 0)

    def _send(self, *, percentage: float | None, remaining: float | None, at_once: bool) -> None:
        report(
            step=self._step,
            total_steps=self.total_steps,
            percentage=percentage,
            remaining_seconds=remaining,
            at_once=at_once,
            **self._metrics,
        )
