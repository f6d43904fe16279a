"""The progress of a job's training in words. No I/O."""

from __future__ import annotations

from datetime import datetime

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.base.durations import human_duration
from tfoperator.cli.views.jobs import age

_SHOWN_METRICS = 3
COMPLETE = 100
"""The percentage of a complete training."""


def progress_text(progress: TrainingProgress, now: datetime) -> str:
    """Return a text such as `43%, step 430 of 1000, 3m20s left, loss 0.23`.

    Parts that were not reported are missing.
    """
    parts = [progress.completion] if progress.percentage is not None else []
    if progress.step is not None:
        parts.append(f"step {progress.step}" + (f" of {progress.total_steps}" if progress.total_steps else ""))
    remaining = seconds_left(progress, now)
    if remaining is not None and progress.percentage != COMPLETE:
        parts.append(f"{human_duration(remaining)} left")
    return ", ".join((*parts, *metric_texts(progress)))


def metric_texts(progress: TrainingProgress) -> list[str]:
    """Return texts for the first few metrics, such as `loss 0.23`. The metric `loss` comes first."""
    ordered = sorted(progress.metrics, key=lambda metric: metric.name != "loss")
    return [f"{metric.name} {short_number(metric.value)}" for metric in ordered[:_SHOWN_METRICS]]


def seconds_left(progress: TrainingProgress, now: datetime) -> float | None:
    """Return the estimated remaining time in seconds, minus the time since the estimate; None without an estimate."""
    remaining, made = progress.estimated_remaining_seconds, progress.report_time
    if remaining is None or made is None:
        return remaining
    return max(0.0, remaining - max(0.0, (now - made).total_seconds()))


def behind_text(progress: TrainingProgress, now: datetime) -> str:
    """Return `worker-3 at step 400 (2m ago)` for each replica that is behind the others; "" if there is none.

    When the training is complete, no replica counts as behind, because replicas report their last step at different
    times.
    """
    if progress.percentage == COMPLETE:
        return ""
    steps = [replica.step for replica in progress.behind if replica.step is not None]
    most = max([*steps, progress.step or 0], default=0)
    late = [replica for replica in progress.behind if replica.step is not None and replica.step < most]
    return ", ".join(
        f"{replica.name} at step {replica.step} ({age(replica.last_updated_time, now)} ago)" for replica in late
    )


def slow_text(progress: TrainingProgress) -> str:
    """Return a text for each slow replica; "" if there is no such replica.

    For example: `worker-3 (each step takes 2.1 times the usual duration)`.
    """
    return ", ".join(
        f"{replica.name} (each step takes {replica.factor} times the usual duration)" for replica in progress.slow
    )


def short_number(value: str) -> str:
    """Return a decimal fraction with at most four significant digits. Leave whole numbers and other texts unchanged."""
    try:
        return f"{float(value):.4g}" if "." in value or "e" in value.lower() else value
    except ValueError:
        return value
