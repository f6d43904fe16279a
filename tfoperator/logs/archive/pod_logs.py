"""Writes the folder of a pod: the wanted logs, the logs that were kept before, and the record.

A new folder is written beside the old folder, and replaces it when the new folder is complete. So a reader never sees a
partial folder. Logs that are already in the archive are linked into the new folder, and not fetched again.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path, PurePath

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.client import Client
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.logs.archive.attempt import Attempt, PodGone
from tfoperator.logs.archive.layout import (
    RECORD,
    encode_record,
    pod_folder,
    pod_record,
)
from tfoperator.logs.archive.log_file import SavedLog, save_log
from tfoperator.logs.archive.place import Place
from tfoperator.logs.archive.retention import Retention
from tfoperator.logs.archive.runs import (
    NO_RUNS,
    ArchivedRun,
    RunKey,
    containers_of,
    kept_runs,
    runs_of,
)
from tfoperator.logs.archive.stacks import MAX_STACKS_BYTES, with_stacks

PodNow = Callable[[Pod], Pod | None]
"""Returns the pod as the caches have it now. Returns None if the pod is gone, even if another pod has the same name."""


class Saved(msgspec.Struct, frozen=True):
    """The result of an attempt to keep the wanted logs of a pod.

    `kept` are the runs for which the archive has the log as complete as possible. `worth_another` is true if another
    attempt may get a log that is missing. `size` is the number of bytes that were written, or None if no folder was
    written. `new` is true if the archive had nothing of the pod before.
    """

    kept: frozenset[RunKey] = NO_RUNS
    problems: tuple[str, ...] = ()
    worth_another: bool = False
    size: int | None = None
    new: bool = False


class ArchiveBounds(msgspec.Struct, frozen=True):
    """The limits: the size of the archive and of each log in it (bytes), and the time for the logs of a pod (seconds).

    The deletion of a pod may be delayed by up to `timeout`.
    """

    max_bytes: int
    max_log_bytes: int
    timeout: float


class _Turns:
    """Lets only one thread at a time write the folder of a pod.

    Otherwise a thread could replace a folder that another thread has just written, and the logs in this folder would be
    lost. Thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # guards the fields below
        self._taken: set[PurePath] = set()
        self._closed = False

    @contextmanager
    def one_of(self, folder: PurePath, deadline: float) -> Iterator[None]:
        """Lock the folder.

        Raises OSError if another thread still has the lock at the deadline (on the monotonic clock), or when `close` is
        called.
        """
        with self._changed:
            while folder in self._taken:
                if self._closed or not self._clock.wait_until(self._changed, deadline):
                    raise OSError(f"another process is writing {folder.name}")
            self._taken.add(folder)
        try:
            yield
        finally:
            with self._changed:
                self._taken.discard(folder)
                self._changed.notify_all()

    def close(self) -> None:
        """End the waits of all threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class PodLogs:
    """Fetches the logs of pods, and writes the folders of the pods in an archive.

    Thread-safe. If several threads write the folder of the same pod, they wait for each other. `close()` ends the calls
    that are running.
    """

    def __init__(self, client: Client, place: Place, bounds: ArchiveBounds, *, clock: Clock, pod_now: PodNow) -> None:
        """`pod_now` returns the present state of a pod.

        The caller of `save` computes the argument `deadline` from `bounds.timeout`.
        """
        self._client = client
        self._place = place
        self.bounds = bounds
        self._clock = clock
        self._pod_now = pod_now
        self._retention = Retention(place, bounds.max_bytes, clock=clock)
        self._turns = _Turns(clock)
        self._streams: set[ByteStream] = set()
        self._closed = False

    def close(self) -> None:
        """End all log streams.

        The partial logs are not kept. The next operator that uses the archive finds them missing and fetches them.
        """
        self._closed = True
        self._turns.close()
        for stream in self._streams.copy():
            stream.close()

    def save(
        self, job: ObjectMeta, pod: Pod, runs: Iterable[ArchivedRun], known: frozenset[RunKey], deadline: float
    ) -> Saved:
        """Keep the logs of these runs. Logs that are already complete in the archive are not fetched again.

        Raises OSError if the folder can't be written, or if another thread still writes it at the deadline.
        `known` are runs that need no second attempt although their logs may be incomplete. `deadline` is a time on the
        monotonic clock. If it passes while a log is read, the part that was read is kept.
        """
        target = pod_folder(job, pod.metadata)
        with self._turns.one_of(target, deadline):
            self._retention.prepare()
            old = self._place.record(target)
            have = kept_runs(old) | known
            # The log of a current run is never complete.
            wanted = frozenset(run.key for run in runs if run.end is None or run.key not in have)
            if not wanted:
                return Saved(have)
            folder = self._retention.new_folder(target)
            try:
                fetch = partial(self._fetch, pod, deadline)
                attempt = Attempt(
                    fetch, self.bounds.timeout, self._clock.now(), self._place, target, pod, folder, old, wanted, have
                )
                containers = tuple(attempt.container(status, init=init) for status, init in containers_of(pod))
                if self._closed or not any(container.log or container.previous_log for container in containers):
                    return Saved(attempt.kept, tuple(attempt.problems), attempt.worth_another and not self._closed)
                now = self._clock.now()
                (folder / RECORD).write_bytes(encode_record(pod_record(job, pod, now, containers)))
                self._retention.add(folder, target, _end_of(pod, now), old)
                return Saved(
                    attempt.kept, tuple(attempt.problems), attempt.worth_another, size=attempt.fetched, new=old is None
                )
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                self._retention.release(folder)

    def save_stacks(self, job: ObjectMeta, pod: Pod, container: str, text: str) -> None:
        """Add the stacks of a container's threads to the pod's folder. Raises OSError if the folder can't be written.

        If another thread writes the pod's folder, the call waits, at most for the time limit of a pod's logs.
        """
        target = pod_folder(job, pod.metadata)
        with self._turns.one_of(target, self._clock.monotonic() + self.bounds.timeout):
            self._retention.prepare()
            now = self._clock.now()
            old = self._place.record(target)
            record = old or pod_record(job, pod, now, ())
            folder = self._retention.new_folder(target)
            try:
                if not self._retention.claim(folder, min(len(text), MAX_STACKS_BYTES)):
                    raise OSError("the archive is full")
                record = with_stacks(self._place, target, folder, record, container, now, text)
                (folder / RECORD).write_bytes(encode_record(record))
                self._retention.add(folder, target, now, old)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                self._retention.release(folder)

    def _fetch(self, pod: Pod, deadline: float, run: ArchivedRun, path: Path) -> SavedLog:
        """Fetch the log of one run to a file. Raises KubeError or OSError."""

        def in_time() -> bool:
            return self._clock.monotonic() < deadline

        if not in_time():
            raise KubeError(f"the time limit of {self.bounds.timeout:.0f} s was over")
        meta = pod.metadata
        with self._client.pod_log(meta.namespace, meta.name, run.container, previous=run.previous) as stream:
            # The API finds a log by the pod's name, which a replacement pod may have, too. The operator creates the
            # replacement only after its cache has shown the end of this pod. So if the cache still has this pod now,
            # after the log was opened, the log belongs to this pod.
            now = self._pod_now(pod)
            if now is None:
                raise PodGone(f"pod {meta.name} has gone")
            if run.end is not None and all(current.key != run.key for current in runs_of(now)):
                raise KubeError("the container was restarted at the same time")
            self._streams.add(stream)
            try:
                room = partial(self._retention.claim, path.parent)
                saved = save_log(stream, path, limit=self.bounds.max_log_bytes, in_time=in_time, room=room)
            finally:
                self._streams.discard(stream)
        if self._closed:
            raise KubeError("the operator is stopping")
        return saved


def _end_of(pod: Pod, now: datetime) -> datetime:
    """Return the end of the pod's last run, or the current time if a container is running.

    The archive removes the pods with the earliest ends first.
    """
    ends = [run.end.finished_at if run.end is not None else None for run in runs_of(pod)]
    times = [end for end in ends if end is not None]
    return min(max(times), now) if len(times) == len(ends) and times else now
