"""Looks at the newest lines of logs, for jobs with a progress deadline that report no progress.

One request for one line of one pod, and more until a new line is found: for a job that makes progress mostly one, twice
in its deadline. Other jobs have no entry here, and without such a job there is no thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from tfoperator.api.names import DEFAULT_CONTAINER_NAME
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.controller import LogLines, NewestLine
from tfoperator.kube.client import Client
from tfoperator.kube.errors import ForbiddenError, KubeError
from tfoperator.kube.objects import ObjectMeta, Pod
from tfoperator.operator.witnesses.witness_pool import WitnessPool

logger = logging.getLogger(__name__)


class Seen(msgspec.Struct, frozen=True):
    """The time of a log's newest line, None if it has none; and whether its program is stopped (SIGSTOP)."""

    written: datetime | None
    stopped: bool = False


NewestLineOf = Callable[[Pod], Seen]
"""Looks at the training container of a pod. Raises KubeError."""

_CONCURRENT_JOBS = 4
"""The number of jobs whose logs are read concurrently; of a job, one pod after the other."""
_MAX_PODS = 256
"""The maximum number of pods of one job: a thousand silent workers are detected from the first of them."""
_STAMP_BYTES = 64  # a time in RFC 3339 with nanoseconds, and the space after it
_FORBIDDEN_PROBLEM = "the operator may not read logs (its role has no pods/log; see docs/hangs.md)"

_NOTHING_READ = LogLines()


def newest_line_from(client: Client) -> NewestLineOf:
    """Return a function that reads one line and its time from an API server's log of a pod; it uses only the time."""

    def newest_line(pod: Pod) -> Seen:
        meta = pod.metadata
        head = b""
        with client.pod_log(meta.namespace, meta.name, DEFAULT_CONTAINER_NAME, tail_lines=1, timestamps=True) as stream:
            for piece in stream:
                head += piece[:_STAMP_BYTES]
                if len(head) >= _STAMP_BYTES or b" " in head:
                    break
        return Seen(parse_stamp(head))

    return newest_line


def parse_stamp(line: bytes) -> datetime | None:
    """Return the time at the start of a line from a log with `timestamps=true`; None if there is none."""
    text = line[:_STAMP_BYTES].partition(b" ")[0].decode("ascii", "replace").strip()
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    return stamp if stamp.tzinfo is not None else None


class LogLooker:
    """A `LogLooks`. Thread-safe. `close()` ends its threads."""

    def __init__(self, newest_line: NewestLineOf, *, clock: Clock | None = None) -> None:
        self._newest_line = newest_line
        self._clock = clock or SystemClock()
        self._pool = WitnessPool(_CONCURRENT_JOBS, "log-looks")
        self._lock = threading.Lock()  # guards the fields below
        self._known: dict[str, LogLines] = {}  # by job uid
        self._looking: set[str] = set()  # job UIDs; a job that is forgotten meanwhile is removed

    def known(self, uid: str) -> LogLines:
        """Return the result of the last look at the logs of the job with this UID."""
        with self._lock:
            return self._known.get(uid, _NOTHING_READ)

    def look(self, job: ObjectMeta, pods: Sequence[Pod], newer_than: datetime, done: Callable[[], object]) -> None:
        """Begin to look, unless a look at this job's logs is under way; `done` is called when it is over."""
        with self._lock:
            if self._pool.closed or job.uid in self._looking:
                return
            self._looking.add(job.uid)
        self._pool.submit(self._look, job, tuple(pods[:_MAX_PODS]), newer_than, done)

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        with self._lock:
            self._known.pop(uid, None)
            self._looking.discard(uid)

    def close(self, timeout: float = 2.0) -> None:
        """Start no more looks, and wait up to `timeout` real seconds for the threads. Idempotent."""
        self._pool.close(timeout)

    def _look(self, job: ObjectMeta, pods: Sequence[Pod], newer_than: datetime, done: Callable[[], object]) -> None:
        looked = self._clock.now()
        before = self.known(job.uid)
        newest: dict[str, NewestLine] = {}
        problem = ""
        try:
            for pod in pods:
                uid = pod.metadata.uid
                try:
                    seen = self._newest_line(pod)
                except KubeError as error:
                    # A pod whose log can't be read gives no news, but does not end the look.
                    problem = _FORBIDDEN_PROBLEM if isinstance(error, ForbiddenError) else str(error)
                    logger.debug("no newest line of %s: %s", pod.metadata.name, error, extra={"job": job.key})
                    if isinstance(error, ForbiddenError) or self._pool.closed:
                        break
                    continue
                newest[uid] = new_line(
                    before.newest.get(uid), seen.written, looked, before.looked, stopped=seen.stopped
                )
                if newest[uid].time > newer_than:
                    break
        except Exception:
            logger.exception("looking at the logs failed", extra={"job": job.key})
        with self._lock:
            if job.uid not in self._looking:
                return  # the job is gone: an entry made now would never be forgotten
            self._looking.discard(job.uid)
            alive = {pod.metadata.uid for pod in pods}
            kept = {uid: one for uid, one in before.newest.items() if uid in alive}
            # Readable logs count; the problem is reported only if no log could be read.
            self._known[job.uid] = LogLines({**kept, **newest}, looked, "" if newest else problem)
            closed = self._pool.closed
        if not closed:
            done()


def new_line(
    before: NewestLine | None,
    stamp: datetime | None,
    looked: datetime,
    previous: datetime | None,
    *,
    stopped: bool = False,
) -> NewestLine:
    """Return the result of a look at a log at `looked`; its newest line has the time `stamp` (None: there is none).

    `before` is the result of the look at `previous`. A line that was not there then is newer than that look, whatever
    its node's clock says.
    """
    if stamp is None:
        time = before.time if before is not None else datetime(1970, 1, 1, tzinfo=UTC)
        return NewestLine(time, before.stamp if before is not None else None, stopped)
    if before is not None and before.stamp == stamp:
        return NewestLine(before.time, stamp, stopped)
    time = min(stamp, looked)
    if before is not None and previous is not None:
        time = max(time, previous)
    return NewestLine(time, stamp, stopped)
