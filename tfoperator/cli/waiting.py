"""Waits for jobs and shows their state, for the commands `wait`, `submit --wait` and `delete --wait`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import typer

from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Repetition, SystemClock
from tfoperator.base.durations import parse_duration
from tfoperator.cli.terminal.progress import StatusLine
from tfoperator.sdk.queues import JobQueue, in_queue, job_queue
from tfoperator.sdk.states import ready_text

if TYPE_CHECKING:
    from tfoperator.kube.client import Client
    from tfoperator.sdk import TFJobClient

_QUEUE_SECONDS = 3.0
"""The number of seconds between two reads of a job's queue. The state of the job in the queue may change without a
change of the job object.
"""


class Deadline:
    """A time limit that several waits share; without `seconds` there is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """The remaining seconds."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


def timeout_seconds(text: str, option: str = "--timeout") -> float:
    """Return the seconds of a duration such as `90`, `90s`, `1.5h` or `1h30m`, which is the value of an option.

    Raises typer.BadParameter if the text has another form, or if the duration is 0.
    """
    try:
        seconds = parse_duration(text.lower())
    except ValueError:
        message = f"{text!r} is not a duration: use a form such as 90s, 10m or 1h30m"
        raise typer.BadParameter(message, param_hint=option) from None
    if seconds <= 0:
        raise typer.BadParameter("must be more than 0", param_hint=option)
    return seconds


def optional_deadline(wait: bool, timeout: str | None) -> Deadline:
    """Return the deadline for `--timeout`. Raises typer.BadParameter if `--timeout` is given without `--wait`."""
    if timeout and not wait:
        raise typer.BadParameter("needs --wait", param_hint="--timeout")
    return Deadline(timeout_seconds(timeout) if timeout else None)


def await_conditions(
    client: TFJobClient, name: str, namespace: str, expected: Collection[str], deadline: Deadline
) -> TFJob:
    """Wait until a condition in `expected` is true, and return the job; show the job's state during the wait.

    Raises the errors of `TFJobClient.wait_for_job_conditions`, for example WaitTimeout after the deadline.
    """
    with StatusLine(f"waiting for {name}") as progress:

        def show(job: TFJob, queue: JobQueue | None) -> None:
            state = job.state
            detail = f"queue {queue}" if queue is not None and (queue.waits or queue.cluster) else state.message
            progress.update(f"{name} is {state.word}, {ready_text(job)} ready" + (f": {detail}" if detail else ""))

        with QueueLooks(client.api, show) as looks:
            return client.wait_for_job_conditions(name, namespace, expected, deadline.left, looks.saw_job)


class QueueLooks:
    """Calls `show` with a job and its queue, each time the job changes and each time the queue was read (every 3 s).

    Use it as a context manager. The object sends no request for a job without a queue.
    """

    def __init__(
        self, client: Client, show: Callable[[TFJob, JobQueue | None], object], *, seconds: float = _QUEUE_SECONDS
    ) -> None:
        """Initialize; the thread that calls `saw_job` and a second thread call `show`, but never at the same time."""
        self._client = client
        self._show = show
        self._lock = threading.Lock()  # guards the fields below, and calls of _show, which only sets a text
        self._job: TFJob | None = None
        self._queue: JobQueue | None = None
        self._looks = Repetition(self._look, seconds=seconds, clock=SystemClock(), name="queue-looks")

    def __enter__(self) -> QueueLooks:
        return self

    def __exit__(self, *_: object) -> None:
        self._looks.stop()

    def saw_job(self, job: TFJob) -> None:
        """Show a new state of the job. If the job is in a queue, begin to read the queue."""
        with self._lock:
            self._job = job
            self._show(job, self._queue)
        if in_queue(job):
            self._looks.start()

    def _look(self) -> None:
        job = self._job
        assert job is not None
        queue = job_queue(self._client, job)
        with self._lock:
            self._queue = queue
            self._show(self._job or job, queue)


def await_deletion(client: TFJobClient, name: str, namespace: str, deadline: Deadline) -> None:
    """Wait until the job is deleted."""
    with StatusLine(f"waiting until {name} is deleted"):
        client.wait_for_job_deletion(name, namespace, deadline.left)
