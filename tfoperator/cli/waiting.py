"""Waiting for jobs with a display: the same for `wait`, `submit --wait` and `delete --wait`."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import typer

from tfoperator.base.durations import parse_duration
from tfoperator.cli.terminal.progress import StatusLine

if TYPE_CHECKING:
    from tfoperator.api.v1.types import TFJob
    from tfoperator.sdk import JobQueue, TFJobClient


class Deadline:
    """A limit that several waits share; None is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """The remaining seconds."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def timeout_seconds(text: str, option: str = "--timeout") -> float:
    """Return the seconds of `90`, `90s`, `1.5h` or `1h30m`, given with an option. Raises typer.BadParameter."""
    try:
        seconds = parse_duration(text.lower())
    except ValueError:
        message = f"{text!r} is no duration; write it like 90s, 10m or 1h30m"
        raise typer.BadParameter(message, param_hint=option) from None
    if seconds <= 0:
        raise typer.BadParameter("must be more than nothing", param_hint=option)
    return seconds


def optional_deadline(wait: bool, timeout: str | None) -> Deadline:
    """Return the deadline of --wait and --timeout. Raises typer.BadParameter for a timeout of nothing."""
    if timeout and not wait:
        raise typer.BadParameter("is for --wait, which is not given", param_hint="--timeout")
    return Deadline(timeout_seconds(timeout) if timeout else None)


def await_conditions(
    client: TFJobClient, name: str, namespace: str, expected: Collection[str], deadline: Deadline
) -> TFJob:
    """Return the job once one of the conditions is true, showing its state meanwhile. Raises the SDK's errors."""
    from tfoperator.cli.queue_watch import QueueWatch
    from tfoperator.cli.views.jobs import state_message
    from tfoperator.sdk.states import job_state, ready_text

    with StatusLine(f"waiting for {name}") as progress:

        def show(job: TFJob, queue: JobQueue | None) -> None:
            said = f"queue {queue}" if queue is not None and (queue.waits or queue.cluster) else state_message(job)
            progress.update(f"{name} is {job_state(job)}, {ready_text(job)} ready" + (f": {said}" if said else ""))

        with QueueWatch(client.api, show) as watch:
            return client.wait_for_job_conditions(name, namespace, expected, deadline.left, watch.saw_job)


def await_deletion(client: TFJobClient, name: str, namespace: str, deadline: Deadline) -> None:
    """Return when the job is deleted."""
    with StatusLine(f"waiting until {name} is gone"):
        client.wait_for_job_deletion(name, namespace, deadline.left)
