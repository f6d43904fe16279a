"""Archives pods before they are deleted, without ever being the reason why one stays.

Who wants to delete pods asks `prepare()`, which never blocks: it names those that have to wait, and the logs are
fetched by threads of the archive. A pod waits for `timeout` seconds at most; what could not be kept by then is reported
and lost, because a replica that isn't restarted is worse than a log that is missing.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.archive.layout import (
    RECORD,
    ArchivedContainer,
    component,
    container_of,
    describe,
    encode_record,
    pod_folder,
)
from tfoperator.archive.logs import LogSource, LogText, SavedLog, save_log
from tfoperator.archive.retention import Retention
from tfoperator.clock import Clock, SystemClock
from tfoperator.kube.errors import KubeError, NotFoundError
from tfoperator.kube.objects import ContainerStatus, Pod

__all__ = ["ArchiveMetrics", "LogArchive", "NoArchiveMetrics", "ensure_writable"]

logger = logging.getLogger(__name__)

_AT_ONCE = 8  # logs being fetched
_REMEMBERED = 60.0
"""Seconds for which a pod counts as archived: a deletion that fails is tried again within them, and one of a pod that
has been left alone since then is about new lines."""


class ArchiveMetrics(Protocol):
    """Hooks, called from the archive's threads; they must not raise."""

    def archived(self, size: int) -> None:
        """The logs of a pod were kept, so many bytes."""
        ...

    def archive_failed(self) -> None:
        """A log of a pod, or all, could not be kept."""
        ...


class NoArchiveMetrics:
    """Counts nothing; the default."""

    def archived(self, size: int) -> None:
        """See `ArchiveMetrics`."""

    def archive_failed(self) -> None:
        """See `ArchiveMetrics`."""


@dataclass
class _Entry:
    """A pod that is being archived or was: times on the monotonic clock."""

    deadline: float
    finished: float | None = None


@dataclass
class _Batch:
    """The pods of one request. Guarded by the archive's lock."""

    open: int
    done: Callable[[], object]


class LogArchive:
    """Thread-safe. `close()` ends its threads; it costs none until the first pod is archived.

    `max_bytes` bounds the archive, `max_log_bytes` each log, `timeout` (seconds) how long a pod's deletion may wait.
    `report(job, message)` is told what could not be kept, from a thread of the archive.
    """

    def __init__(
        self,
        source: LogSource,
        root: Path,
        *,
        max_bytes: int,
        max_log_bytes: int,
        timeout: float,
        report: Callable[[TFJob, str], object] = lambda _job, _message: None,
        metrics: ArchiveMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.timeout = timeout
        self._source = source
        self._root = root
        self._max_log = max_log_bytes
        self._report = report
        self._metrics = metrics or NoArchiveMetrics()
        self._clock = clock or SystemClock()
        self._retention = Retention(root, max_bytes)
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="log-archive")
        self._lock = threading.Lock()  # guards what follows, and batches
        self._entries: dict[str, _Entry] = {}  # by pod uid
        self._streams: set[LogText] = set()
        self._running: set[Future[None]] = set()
        self._closed = False

    def prepare(self, job: TFJob, pods: Sequence[Pod], done: Callable[[], object]) -> frozenset[str]:
        """The UIDs of those pods that have to wait; the others may be deleted. Does not block.

        `done` is called, from another thread, once those that this call began with need wait no longer.
        """
        now = self._clock.monotonic()
        fresh: list[Pod] = []
        waiting: set[str] = set()
        with self._lock:
            for pod in pods:
                uid = pod.metadata.uid
                entry = self._entries.get(uid)
                if entry is None or (entry.finished is not None and now - entry.finished > _REMEMBERED):
                    if _has_logs(pod):
                        fresh.append(pod)
                elif entry.finished is None and now < entry.deadline:
                    waiting.add(uid)
            if self._closed:
                # Who stops leaves the deletion to the next leader, who archives first.
                return frozenset(waiting) | {pod.metadata.uid for pod in fresh}
            if fresh:
                self._forget_old(now)
                batch = _Batch(len(fresh), done)
                for pod in fresh:
                    self._entries[pod.metadata.uid] = entry = _Entry(now + self.timeout)
                    running = self._pool.submit(self._run, job, pod, entry, batch)
                    self._running.add(running)
                    running.add_done_callback(self._running.discard)
        return frozenset(waiting) | {pod.metadata.uid for pod in fresh}

    def close(self, timeout: float = 2.0) -> None:
        """Give up what is under way, and wait up to `timeout` real seconds for the threads. Idempotent.

        One that waits for an answer, because a node is gone perhaps, ends when the source's client is closed.
        """
        with self._lock:
            self._closed = True
            streams = tuple(self._streams)
        for stream in streams:
            stream.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if not wait(tuple(self._running), timeout).not_done:  # those that were cancelled are not among them
            self._pool.shutdown(wait=True)

    def _forget_old(self, now: float) -> None:
        old = [uid for uid, entry in self._entries.items() if now - (entry.finished or entry.deadline) > _REMEMBERED]
        for uid in old:
            del self._entries[uid]

    # In the archive's threads.

    def _run(self, job: TFJob, pod: Pod, entry: _Entry, batch: _Batch) -> None:
        try:
            self._archive(job, pod, entry.deadline)
        except Exception as error:
            logger.exception("archiving the logs of %s failed", pod.metadata.name, extra={"job": job.metadata.key})
            self._failed(job, pod, [str(error)])
        finally:
            with self._lock:
                entry.finished = self._clock.monotonic()
                batch.open -= 1
                last = batch.open == 0
            if last:
                batch.done()

    def _archive(self, job: TFJob, pod: Pod, deadline: float) -> None:
        meta = pod.metadata
        target = pod_folder(self._root, meta.namespace, job.metadata.name, job.metadata.uid, meta)
        problems: list[str] = []
        try:
            folder = self._retention.scratch(target)
            try:
                containers = tuple(
                    self._save_container(pod, status, folder, deadline, init=init)
                    for init, statuses in (
                        (True, pod.status.init_container_statuses),
                        (False, pod.status.container_statuses),
                    )
                    for status in statuses
                )
                problems += [f"{one.name}: {one.problem}" for one in containers if one.problem]
                if any(one.log or one.previous_log for one in containers):
                    record = describe(job.metadata, pod, self._clock.now(), containers)
                    (folder / RECORD).write_bytes(encode_record(record))
                    self._retention.admit(folder, target)
                    self._metrics.archived(sum(one.size for one in containers))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            problems.append(f"the archive can't be written: {error.strerror or error}")
        if problems:
            self._failed(job, pod, problems)
        else:
            logger.debug("archived the logs of %s", meta.name, extra={"job": job.metadata.key})

    def _save_container(
        self, pod: Pod, status: ContainerStatus, folder: Path, deadline: float, *, init: bool
    ) -> ArchivedContainer:
        """Save what a container has logged. Raises OSError; what the API server refuses is in the answer."""
        known = container_of(status, init=init)
        ended_before = status.last_state is not None and status.last_state.terminated is not None
        runs = [True] if ended_before else []
        if status.state is not None and status.state.waiting is None:
            runs.append(False)
        changes: dict[str, object] = {}
        problems: list[str] = []
        for previous in runs:
            path = folder / f"{component(status.name)}{'.previous' if previous else ''}.log"
            try:
                saved = self._save(pod, status.name, path, deadline, previous=previous)
            except KubeError as error:
                if _has_gone(error, pod):
                    logger.debug("%s has gone, and its log with it: %s", pod.metadata.name, error)
                    continue
                problems.append(str(error))
                if not path.exists() or not path.stat().st_size:
                    path.unlink(missing_ok=True)
                    continue
            else:
                if saved.dropped and not previous:
                    changes["dropped"] = saved.dropped
                if not saved.complete:
                    problems.append(f"cut off after {self.timeout:.0f} s")
            path.chmod(0o640)
            changes["previous_log" if previous else "log"] = path.name
        size = sum(file.stat().st_size for file in folder.glob(f"{component(status.name)}*.log"))
        changed: ArchivedContainer = msgspec.structs.replace(known, size=size, problem="; ".join(problems), **changes)
        return changed

    def _save(self, pod: Pod, container: str, path: Path, deadline: float, *, previous: bool) -> SavedLog:
        def in_time() -> bool:
            return self._clock.monotonic() < deadline

        if not in_time():
            raise _OutOfTime(f"no time was left after {self.timeout:.0f} s")
        meta = pod.metadata
        with self._source.pod_log(meta.namespace, meta.name, container, previous=previous) as stream:
            with self._lock:
                self._streams.add(stream)
                if self._closed:
                    raise _OutOfTime("the operator is stopping")
            try:
                return save_log(stream, path, limit=self._max_log, in_time=in_time)
            finally:
                with self._lock:
                    self._streams.discard(stream)

    def _failed(self, job: TFJob, pod: Pod, problems: Sequence[str]) -> None:
        self._metrics.archive_failed()
        message = f"The log of pod {pod.metadata.name} was not archived: {'; '.join(problems)}"
        logger.warning("%s", message, extra={"job": job.metadata.key})
        self._report(job, message)


class _OutOfTime(KubeError):
    """A log was not asked for any more."""


def _has_gone(error: KubeError, pod: Pod) -> bool:
    """Whether the pod is what was not found; its node may be (as `pods "node-1" not found`), and then a log is lost."""
    if not isinstance(error, NotFoundError):
        return False
    details = error.status.details
    return details is None or details.name in ("", pod.metadata.name)


def ensure_writable(root: Path) -> None:
    """Make the directory if it isn't there. Raises OSError if nothing can be written to it."""
    root.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".writable-", dir=root)
    os.close(handle)
    Path(name).unlink()


def _has_logs(pod: Pod) -> bool:
    """Whether a container has run, so that there can be a log."""
    return any(
        (status.state is not None and status.state.waiting is None)
        or (status.last_state is not None and status.last_state.terminated is not None)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
