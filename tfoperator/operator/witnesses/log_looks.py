"""Reads the newest lines of logs, for jobs that have a progress deadline but report no progress.

A new line counts as progress. A look at a job requests the last line of a pod's log, and then of further pods, until it
finds a new line. For a job that makes progress, a look mostly costs one request. The controller requests two looks
within the job's deadline. Jobs without a progress deadline cost nothing here.

A user can create many jobs whose pods write nothing. Looks at these jobs cost many requests. So this module limits the
requests per second of the whole process. If looks must wait, the namespaces take turns. So a namespace with many jobs
does not delay other namespaces. If the operator may not read the logs of a namespace, it retries only after minutes,
however many jobs the namespace has.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.controller import LogLines, NewestLine
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ClientClosed, ForbiddenError, KubeError
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.operator.witnesses.witness_pool import WitnessPool

logger = logging.getLogger(__name__)


class Seen(msgspec.Struct, frozen=True):
    """The time of a log's newest line, and whether the program that writes the log is stopped (SIGSTOP).

    The time is None if the log has no line.
    """

    written: datetime | None
    stopped: bool = False


NewestLineOf = Callable[[Pod], Seen]
"""A function that reads the newest line in the log of a pod's container `tensorflow`. Raises KubeError."""

_CONCURRENT_JOBS = 4
"""The number of jobs whose logs are read in parallel. The pods of a job are read one after the other."""
_MAX_PODS = 256
"""The maximum number of pods of a job whose logs are read. If a thousand workers write nothing, the first of them
suffice to detect the stall.
"""
_REQUESTS_PER_SECOND, _REQUESTS_AT_ONCE = 20.0, 40
"""Limits for the whole process: requests per second, and requests in a burst. A request costs the process 5 ms of CPU,
so the requests use at most 10 % of a core. That is enough for 6,000 jobs with a deadline of ten minutes. With more
jobs, the looks come later, and the operator detects a stall later.
"""
_REFUSED_SECONDS = 300.0
"""Seconds for which the operator requests no logs of a namespace after a 403. If an administrator grants the right
`pods/log`, the operator uses it after this time.
"""
_STAMP_BYTES = 64  # a time in RFC 3339 with nanoseconds, and the space after it
_FORBIDDEN_PROBLEM = "the operator may not read logs (its role lacks pods/log; see docs/hangs.md)"

_NOTHING_READ = LogLines()


def newest_line_from(client: Client) -> NewestLineOf:
    """Return a function that reads the last line of a pod's log from the API server.

    The function uses only the time of the line. `Seen.stopped` is always False, because the API server does not show
    whether a program is stopped.
    """

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
    """Return the time at the start of a line from a log with `timestamps=true`. Return None if the line has no time."""
    text = line[:_STAMP_BYTES].partition(b" ")[0].decode("ascii", "replace").strip()
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    return stamp if stamp.tzinfo is not None else None


class _Look(msgspec.Struct, frozen=True):
    """A request to read the newest log lines of a job (a look). The look has not begun.

    The fields are the arguments of `LogLooker.look`.
    """

    job: ObjectMeta
    pods: tuple[Pod, ...]
    newer_than: datetime
    done: Callable[[], object]


class _Refused(Exception):
    """The operator has no permission to read the logs of a pod's namespace.

    The API server refuses now (403), or has refused in the last `_REFUSED_SECONDS`.
    """


class LogLooker:
    """Reads the newest log lines of jobs in its own threads, as the controller's protocol `LogLooks` requires.

    Thread-safe. `close()` ends the threads.
    """

    def __init__(self, newest_line: NewestLineOf, *, clock: Clock | None = None) -> None:
        self._newest_line = newest_line
        self._clock = clock or SystemClock()
        self._pool = WitnessPool(_CONCURRENT_JOBS, "log-looks")
        self._bucket = TokenBucket(_REQUESTS_PER_SECOND, _REQUESTS_AT_ONCE, clock=self._clock)
        self._closing = StopSignal()
        self._lock = threading.Lock()  # guards the fields below
        self._known: dict[str, LogLines] = {}  # by job uid
        self._looking: set[str] = set()  # job UIDs; a job that is forgotten meanwhile is removed
        self._waiting: dict[str, deque[_Look]] = {}  # by namespace, the namespace whose turn it is first
        self._refused_until: dict[str, float] = {}  # by namespace, on the monotonic clock

    def known(self, uid: str) -> LogLines:
        """Return the result of the last look at the logs of the job with this UID.

        The result is empty before the first look.
        """
        with self._lock:
            return self._known.get(uid, _NOTHING_READ)

    def look(self, job: ObjectMeta, pods: Sequence[Pod], newer_than: datetime, done: Callable[[], object]) -> None:
        """Request a look at this job's logs, unless a look at this job is already requested or in progress.

        The look reads the newest line of each pod (of the first `_MAX_PODS` pods at most), and ends early at a line
        that is newer than `newer_than`. `done` is called at the end of the look, with or without such a line, unless
        `forget` or `close` was called before.
        """
        with self._lock:
            if self._pool.closed or job.uid in self._looking:
                return
            self._looking.add(job.uid)
            look = _Look(job, tuple(pods[:_MAX_PODS]), newer_than, done)
            self._waiting.setdefault(job.namespace, deque()).append(look)
        self._pool.submit(self._make_next)

    def forget(self, uid: str) -> None:
        """Forget a job that no longer exists."""
        with self._lock:
            self._known.pop(uid, None)
            self._looking.discard(uid)

    def close(self, timeout: float = 2.0) -> None:
        """Start no more looks, and wait up to `timeout` seconds of real time for the threads. Idempotent."""
        self._closing.set()
        self._pool.close(timeout)

    def _make_next(self) -> None:
        """Make the next look of the namespace whose turn it is. This method is called once for each requested look."""
        with self._lock:
            namespace = next(iter(self._waiting))
            looks = self._waiting.pop(namespace)
            look = looks.popleft()
            if looks:
                self._waiting[namespace] = looks  # at the end of the dict, so the other namespaces come first
            is_gone = look.job.uid not in self._looking
        if not is_gone:
            self._make(look)

    def _make(self, look: _Look) -> None:
        job, looked = look.job, self._clock.now()
        before = self.known(job.uid)
        newest: dict[str, NewestLine] = {}
        problem = ""
        try:
            for pod in look.pods:
                uid = pod.metadata.uid
                try:
                    seen = self._ask(pod)
                except _Refused:
                    problem = _FORBIDDEN_PROBLEM
                    break
                except KubeError as error:
                    # A pod whose log can't be read is skipped, and does not end the look.
                    problem = str(error)
                    logger.debug(
                        "can't read the newest line of %s: %s", pod.metadata.name, error, extra={"job": job.key}
                    )
                    if self._pool.closed:
                        break
                    continue
                newest[uid] = new_line(
                    before.newest.get(uid), seen.written, looked, before.looked, stopped=seen.stopped
                )
                if newest[uid].time > look.newer_than:
                    break
        except Exception:
            logger.exception("reading the logs failed unexpectedly", extra={"job": job.key})
        with self._lock:
            if job.uid not in self._looking:
                return  # `forget` was called meanwhile: a new entry would never be removed
            self._looking.discard(job.uid)
            alive = {pod.metadata.uid for pod in look.pods}
            kept = {uid: newest_line for uid, newest_line in before.newest.items() if uid in alive}
            # Readable logs count; the problem is reported only if no log could be read.
            self._known[job.uid] = LogLines({**kept, **newest}, looked, "" if newest else problem)
            closed = self._pool.closed
        if not closed:
            look.done()

    def _ask(self, pod: Pod) -> Seen:
        """Request the newest line of a pod.

        First wait until the limits on requests allow it. Raises KubeError or _Refused.
        """
        namespace = pod.metadata.namespace
        if self._is_refused(namespace):
            raise _Refused
        if self._closing.wait(self._clock, self._bucket.reserve()):
            raise ClientClosed("the operator stops")
        if self._is_refused(namespace):
            raise _Refused
        try:
            return self._newest_line(pod)
        except ForbiddenError as error:
            logger.info(
                "the operator will not read logs in namespace %s for %.0f s: %s", namespace, _REFUSED_SECONDS, error
            )
            now = self._clock.monotonic()
            with self._lock:
                held = {name: until for name, until in self._refused_until.items() if until > now}
                self._refused_until = held | {namespace: now + _REFUSED_SECONDS}
            raise _Refused from error

    def _is_refused(self, namespace: str) -> bool:
        """Return whether the API server has refused to show logs of a namespace in the last _REFUSED_SECONDS."""
        with self._lock:
            return self._clock.monotonic() < self._refused_until.get(namespace, float("-inf"))


def new_line(
    before: NewestLine | None,
    stamp: datetime | None,
    looked: datetime,
    previous: datetime | None,
    *,
    stopped: bool = False,
) -> NewestLine:
    """Return the result of a look at a log.

    The look was at the time `looked`, and the newest line has the time stamp `stamp`. If `stamp` is None, the log has
    no line, and the result has the time of the newest line in `before` (or the start of 1970). `before` is the result
    of the previous look, which was at the time `previous`. `before` is None if no earlier look has read this log, and
    `previous` is None at the first look. The node's clock may be wrong. So a line that was not there at the previous
    look counts as newer than `previous`, even if its time stamp is older. `stopped` means that the program which writes
    the log is stopped (SIGSTOP).
    """
    is_new = stamp is not None and (before is None or before.stamp != stamp)
    if stamp is None:
        time = before.time if before is not None else datetime(1970, 1, 1, tzinfo=UTC)
        return NewestLine(time, before.stamp if before is not None else None, stopped)
    if before is not None and before.stamp == stamp:
        return NewestLine(before.time, stamp, stopped)
    time = min(stamp, looked)
    if before is not None and previous is not None:
        time = max(time, previous)
    return NewestLine(time, stamp, stopped, is_new)
