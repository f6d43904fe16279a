"""Writes the folder of one pod: the wanted logs, the logs kept before, and the record.

A new folder is written beside the old folder and replaces it when complete, so a reader never sees a partial folder.
Logs in the archive are linked into it and not fetched again.
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
from tfoperator.kube.http.stream import ByteStream
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
    Run,
    RunKey,
    containers_of,
    kept_runs,
    runs_of,
)
from tfoperator.logs.archive.stacks import MAX_STACKS_BYTES, with_stacks

PodNow = Callable[[Pod], Pod | None]
"""The pod in the caches now; None if it is gone, even if another has its name."""


class Saved(msgspec.Struct, frozen=True):
    """The result for the wanted logs of a pod.

    `kept` are the runs that the archive has as complete as possible; another attempt is `worth_another` if a
    log of it may become available. `size` bytes were written, and `new` means that the archive had nothing of the pod.
    """

    kept: frozenset[RunKey] = NO_RUNS
    problems: tuple[str, ...] = ()
    worth_another: bool = False
    size: int | None = None
    new: bool = False


class ArchiveBounds(msgspec.Struct, frozen=True):
    """The maximum sizes of the archive and of each log in it (bytes), and the time limit for a pod's logs (seconds).

    A pod's deletion may wait that long.
    """

    max_bytes: int
    max_log_bytes: int
    timeout: float


class _Turns:
    """Lets one thread at a time write a pod's folder: each copies the previous thread's result. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # guards the fields below
        self._taken: set[PurePath] = set()
        self._closed = False

    @contextmanager
    def one_of(self, folder: PurePath, deadline: float) -> Iterator[None]:
        """Lock the folder.

        Raises OSError if another thread still holds it at the deadline, on the monotonic clock, or when this is closed.
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
        """End all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class PodLogs:
    """Thread-safe, for different pods at a time; `close()` ends current calls."""

    def __init__(self, client: Client, place: Place, bounds: ArchiveBounds, *, clock: Clock, pod_now: PodNow) -> None:
        """The time limit of `bounds` starts with the call of `save`."""
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
        """End every stream. The partial logs are not kept: the archive's next owner finds them missing."""
        self._closed = True
        self._turns.close()
        for stream in self._streams.copy():
            stream.close()

    def save(self, job: ObjectMeta, pod: Pod, runs: Iterable[Run], known: frozenset[RunKey], deadline: float) -> Saved:
        """Keep the logs of these runs, except those that the archive has completely. Raises OSError.

        `known` are runs that need no second attempt although their logs may be incomplete. `deadline` is on the
        monotonic clock; the bytes read by then are kept.
        """
        target = pod_folder(job, pod.metadata)
        with self._turns.one_of(target, deadline):
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
                if self._closed or not any(one.log or one.previous_log for one in containers):
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
        """Add the stacks of a container's threads to the pod's folder. Raises OSError.

        Waits for another writer of the pod's folder, as long as the logs of a pod may take.
        """
        target = pod_folder(job, pod.metadata)
        with self._turns.one_of(target, self._clock.monotonic() + self.bounds.timeout):
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

    def _fetch(self, pod: Pod, deadline: float, run: Run, path: Path) -> SavedLog:
        """Fetch the log of one run to a file. Raises KubeError and OSError."""

        def in_time() -> bool:
            return self._clock.monotonic() < deadline

        if not in_time():
            raise KubeError(f"the time limit of {self.bounds.timeout:.0f} s was over")
        meta = pod.metadata
        with self._client.pod_log(meta.namespace, meta.name, run.container, previous=run.previous) as stream:
            # The API selects logs by the pod's name. A replacement pod is created after its predecessor's end was
            # seen, so a cache that still has this pod, after the log was opened, proves that the log is this pod's.
            now = self._pod_now(pod)
            if now is None:
                raise PodGone(f"pod {meta.name} has gone")
            if run.end is not None and all(one.key != run.key for one in runs_of(now)):
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
    """Return the end of the pod's last run, or now while a container runs: the archive removes the oldest pods."""
    ends = [run.end.finished_at if run.end is not None else None for run in runs_of(pod)]
    times = [end for end in ends if end is not None]
    return min(max(times), now) if len(times) == len(ends) and times else now
