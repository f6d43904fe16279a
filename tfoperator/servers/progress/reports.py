"""The report of a training program: parsed, validated and bounded. No I/O.

The body is Kubeflow Trainer's `{"trainerStatus": {...}}`. Unknown members are ignored: a newer client
may send more. `lastUpdatedTime` is ignored, as clocks of pods differ; the time of reception counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.api.structure import type_problems
from tfoperator.api.v1.status import Metric

MAX_BODY = 64 << 10
MAX_METRICS = 256
MAX_TEXT = 64
"""Bytes of a body, metrics in it, and characters of a metric's name and of its value: Trainer's own bounds."""

_STEP, _TOTAL_STEPS = "current_step", "total_steps"
_INT64_MAX = 2**63 - 1


class MalformedReport(ValueError):
    """The body is not a report."""


class InvalidReport(ValueError):
    """A report with a wrong value. The message is `field: what it must be`."""


class _TrainerStatus(msgspec.Struct, rename="camel"):
    """The types of what is read of a report."""

    progress_percentage: float | None = None
    estimated_remaining_seconds: float | None = None
    last_updated_time: datetime | None = None
    metrics: tuple[Metric, ...] | None = None


class Pace(msgspec.Struct, frozen=True, gc=False):
    """The steps of a replica's `pod` (its UID): the newest was reported `at`, in monotonic seconds.

    `intervals` between reports are (end, seconds, steps), the oldest first.
    """

    pod: str
    step: int
    at: float
    intervals: tuple[tuple[float, float, int], ...] = ()


class ProgressReport(msgspec.Struct, frozen=True, gc=False):
    """One report of one replica, received at `time` (UTC, whole seconds). Absent members are None.

    `pod` is the UID of its pod, `pace` that of the replica until then. `observed`: it was made from the pod's output,
    not sent by its program.
    """

    replica: str
    time: datetime
    percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    step: int | None = None
    total_steps: int | None = None
    metrics: tuple[Metric, ...] = ()
    pod: str = ""
    pace: Pace | None = None
    observed: bool = False


def parse_report(body: bytes, replica: str, now: datetime, pod: str = "") -> ProgressReport:
    """Return the report in a request's body. Raises MalformedReport and InvalidReport."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReport(f"the body is no JSON: {error}") from None
    status = decoded.get("trainerStatus") if isinstance(decoded, dict) else None
    if not isinstance(status, dict):
        raise MalformedReport('the body must be {"trainerStatus": {...}}')
    if problems := type_problems(status, _TrainerStatus, "trainerStatus"):
        raise InvalidReport(str(problems[0]))
    metrics = _checked_metrics(status.get("metrics") or ())
    return ProgressReport(
        replica=replica,
        time=now.replace(microsecond=0),
        percentage=_whole_number(status, "progressPercentage", 100),
        estimated_remaining_seconds=_whole_number(status, "estimatedRemainingSeconds", _INT64_MAX),
        step=_count(metrics.pop(_STEP, None)),
        total_steps=_count(metrics.pop(_TOTAL_STEPS, None)),
        metrics=tuple(Metric(name, value) for name, value in metrics.items()),
        pod=pod,
    )


def encode_report(report: ProgressReport) -> bytes:
    """Return the report as understood, in the protocol's form."""
    status: dict[str, Any] = {"lastUpdatedTime": report.time}
    if report.percentage is not None:
        status["progressPercentage"] = report.percentage
    if report.estimated_remaining_seconds is not None:
        status["estimatedRemainingSeconds"] = report.estimated_remaining_seconds
    steps = ((_STEP, report.step), (_TOTAL_STEPS, report.total_steps))
    counts = [Metric(name, str(value)) for name, value in steps if value is not None]
    status["metrics"] = [*report.metrics, *counts]
    return msgspec.json.encode({"trainerStatus": status})


def _checked_metrics(items: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return values by name; of two with one name the last. Raises InvalidReport."""
    field = "trainerStatus.metrics"
    if len(items) > MAX_METRICS:
        raise InvalidReport(f"{field}: must have at most {MAX_METRICS} items, but has {len(items)}")
    for position, item in enumerate(items):
        for name in ("name", "value"):
            if not 1 <= len(item[name]) <= MAX_TEXT:
                raise InvalidReport(f"{field}[{position}].{name}: must be a string of 1 to {MAX_TEXT} characters")
    return {item["name"]: item["value"] for item in items}


def _whole_number(status: Mapping[str, Any], name: str, maximum: int) -> int | None:
    """Return a number, rounded down: 99.7 % is not complete. Raises InvalidReport."""
    value = status.get(name)
    if value is not None and not 0 <= value <= maximum:
        raise InvalidReport(f"trainerStatus.{name}: must be a number from 0 to {maximum}")
    return None if value is None else int(value)


def _count(text: str | None) -> int | None:
    """Return a metric as a number of steps; None if it is not one."""
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return int(number) if 0 <= number <= 2**53 else None
