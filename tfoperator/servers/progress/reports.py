"""Parses and validates the report of a training program. The module does no I/O.

The body of a report is Kubeflow Trainer's `{"trainerStatus": {...}}`. Unknown members are ignored, because a newer
client may send more members. `lastUpdatedTime` is ignored, because the clocks of pods differ: the time of the report is
the time at which the operator received it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tfoperator.api.fields.limits import MAX_NOT_A_NUMBER
from tfoperator.api.v1.losses import loss_is_a_number
from tfoperator.api.v1.parts.progress import Metric
from tfoperator.kube.protocol.errors import UNDECODABLE

MAX_BODY = 64 << 10
MAX_METRICS = 256
MAX_TEXT = 64
"""The limits of Kubeflow Trainer: `MAX_BODY` bytes of a body, `MAX_METRICS` metrics in a body, and `MAX_TEXT`
characters of a metric's name and of a metric's value.
"""

_STEP, _TOTAL_STEPS = "current_step", "total_steps"
_INT64_MAX = 2**63 - 1


class MalformedReport(ValueError):
    """The body of a request is not a report: it is not JSON, or has no `trainerStatus`."""


class InvalidReport(ValueError):
    """A report contains a wrong value. The message has the form `field: what it must be`."""


class Pace(msgspec.Struct, frozen=True, gc=False):
    """The data for a replica's pace (seconds per step): its newest step, and the intervals between its last reports.

    `pod` is the UID of the replica's pod. The step was reported at the time `at`, in monotonic seconds. `intervals` are
    the intervals between reports: (end, seconds, number of steps), with the oldest first.
    """

    pod: str
    step: int
    at: float
    intervals: tuple[tuple[float, float, int], ...] = ()


class ProgressReport(msgspec.Struct, frozen=True, gc=False):
    """A report of a training replica (`worker-3`).

    It was received at `time` (UTC, whole seconds). Members that are missing in the report are None. `pod` is the UID of
    the replica's pod. `pace` has the data for the replica's pace at that time. `observed` is True if the operator has
    made the report from the pod's log, and False if the pod's program has sent it. `loss_not_a_number` is the number of
    reports in a row, up to this report, in which the loss was NaN or infinite. It is at most `MAX_NOT_A_NUMBER`.
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
    loss_not_a_number: int = 0


def reports_without_a_number(before: ProgressReport | None, report: ProgressReport) -> int:
    """Return how many reports of a replica in a row, up to this report, had a loss that is NaN or infinite.

    A report without a loss does not change the count. `before` is the replica's last report.
    """
    so_far, is_number = 0 if before is None else before.loss_not_a_number, loss_is_a_number(report.metrics)
    if is_number is None:
        return so_far
    return 0 if is_number else min(so_far + 1, MAX_NOT_A_NUMBER)


def parse_report(body: bytes, replica: str, now: datetime, pod: str = "") -> ProgressReport:
    """Return the report in a request's body. `now` is the time at which it was received. `pod` is the pod's UID.

    Raises MalformedReport or InvalidReport.
    """
    try:
        decoded = msgspec.json.decode(body)
    except UNDECODABLE as error:
        raise MalformedReport(f"the body must be JSON: {error}") from None
    status = decoded.get("trainerStatus") if isinstance(decoded, dict) else None
    if not isinstance(status, dict):
        raise MalformedReport('the body must be {"trainerStatus": {...}}')
    metrics = _metrics(status.get("metrics"))
    _check_time(status.get("lastUpdatedTime"))
    return ProgressReport(
        replica=replica,
        time=now.replace(microsecond=0),
        percentage=_whole_number("progressPercentage", status.get("progressPercentage"), 100),
        estimated_remaining_seconds=_whole_number(
            "estimatedRemainingSeconds", status.get("estimatedRemainingSeconds"), _INT64_MAX
        ),
        step=_count(metrics.pop(_STEP, None)),
        total_steps=_count(metrics.pop(_TOTAL_STEPS, None)),
        metrics=tuple(Metric(name, value) for name, value in metrics.items()),
        pod=pod,
    )


def encode_report(report: ProgressReport) -> bytes:
    """Return the report as JSON in the form of the protocol: `{"trainerStatus": {...}}`.

    The result does not contain members of the request that `parse_report` has ignored.
    """
    status: dict[str, Any] = {"lastUpdatedTime": report.time}
    if report.percentage is not None:
        status["progressPercentage"] = report.percentage
    if report.estimated_remaining_seconds is not None:
        status["estimatedRemainingSeconds"] = report.estimated_remaining_seconds
    steps = ((_STEP, report.step), (_TOTAL_STEPS, report.total_steps))
    counts = [Metric(name, str(value)) for name, value in steps if value is not None]
    status["metrics"] = [*report.metrics, *counts]
    return msgspec.json.encode({"trainerStatus": status})


def _whole_number(field: str, value: Any, maximum: int) -> int | None:
    if value is None:
        return None
    # A number with a fraction is rounded down: 99.7 % is not complete. In JSON, a number can't be NaN or infinite, but
    # an integer can be too large for a float.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= maximum:
        raise InvalidReport(f"trainerStatus.{field}: must be a number from 0 to {maximum}")
    return int(value)


def _metrics(value: Any) -> dict[str, str]:
    """Return the values of `trainerStatus.metrics` by name. If two metrics have the same name, the last of them counts.

    Raises InvalidReport.
    """
    field = "trainerStatus.metrics"
    if value is None:
        return {}
    if not isinstance(value, list):
        raise InvalidReport(f"{field}: must be a list")
    if len(value) > MAX_METRICS:
        raise InvalidReport(f"{field}: must have at most {MAX_METRICS} items, but has {len(value)}")
    metrics: dict[str, str] = {}
    for position, item in enumerate(value):
        if not isinstance(item, dict):
            raise InvalidReport(f"{field}[{position}]: must be an object with name and value")
        metrics[_text(f"{field}[{position}].name", item.get("name"))] = _text(
            f"{field}[{position}].value", item.get("value")
        )
    return metrics


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT:
        raise InvalidReport(f"{field}: must be a string of 1 to {MAX_TEXT} characters")
    return value


def _check_time(value: Any) -> None:
    if value is None:
        return
    try:
        msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        raise InvalidReport("trainerStatus.lastUpdatedTime: must be a time as in RFC 3339") from None


def _count(text: str | None) -> int | None:
    """Return the value of the metric `current_step` or `total_steps` as an int, or None if it is not a valid number."""
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return int(number) if 0 <= number <= 2**53 else None
