"""Writes the folder of one pod: the logs that are wanted of it, what was kept before, and the record.

The folder is written anew beside the old one and takes its place when it is complete, so a reader never sees half of
one. What the archive has already is linked into it and not fetched again.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.errors import BadRequestError, KubeError, NotFoundError
from tfoperator.kube.objects import ContainerStatus, ObjectMeta, Pod
from tfoperator.logs.archive.layout import (
    RECORD,
    ArchivedContainer,
    ArchivedPod,
    encode_record,
    path_component,
    pod_folder,
    pod_record,
    read_record,
)
from tfoperator.logs.archive.log_file import ArchiveSource, LogText, SavedLog, link, save_log
from tfoperator.logs.archive.retention import Retention
from tfoperator.logs.archive.runs import (
    NO_RUNS,
    Run,
    RunKey,
    containers_of,
    file_of,
    kept_runs,
    runs_of,
    runs_of_container,
)
from tfoperator.logs.archive.stacks import MAX_STACKS_BYTES, carry_stacks, with_stacks
from tfoperator.logs.archive.turns import Turns

logger = logging.getLogger(__name__)

PodNow = Callable[[Pod], Pod | None]
"""The pod as the caches show it now; None if it is not there any more, whoever has its name."""


class Saved(msgspec.Struct, frozen=True):
    """What became of the logs of a pod that were wanted.

    `kept` are the runs that the archive has as whole as it ever will; another attempt is `worth_another` try if a
    log of it could come later. `size` bytes were written, and `new` says that the archive had nothing of the pod.
    """

    kept: frozenset[RunKey] = NO_RUNS
    problems: tuple[str, ...] = ()
    worth_another: bool = False
    size: int | None = None
    new: bool = False


class _SavedRun(msgspec.Struct, frozen=True):
    """The file of one run (empty: none), how many bytes before it were left out, and what is wrong with it.

    That the pod has `gone` is nobody's failure, but said in the record.
    """

    file: str = ""
    dropped: int = 0
    problem: str = ""
    gone: bool = False


class ArchiveBounds(msgspec.Struct, frozen=True):
    """How large the archive and each log in it may become (bytes), and how long the logs of a pod may take (seconds).

    For so long a pod's deletion may wait.
    """

    max_bytes: int
    max_log_bytes: int
    timeout: float


class PodLogs:
    """Thread-safe, for different pods at a time; `close()` ends what is under way."""

    def __init__(
        self, source: ArchiveSource, root: Path, bounds: ArchiveBounds, *, clock: Clock, pod_now: PodNow
    ) -> None:
        """The time of `bounds` runs from the call of `save` on."""
        self._source = source
        self._root = root
        self.bounds = bounds
        self._clock = clock
        self._pod_now = pod_now
        self._retention = Retention(root, bounds.max_bytes, clock=clock)
        self._turns = Turns(clock)
        self._lock = threading.Lock()  # guards what follows
        self._streams: set[LogText] = set()
        self._closed = False

    def close(self) -> None:
        """End every stream. What has come by then is not kept: who has the archive next finds the logs missing."""
        with self._lock:
            self._closed = True
            streams = tuple(self._streams)
        self._turns.close()
        for stream in streams:
            stream.close()

    def save(self, job: ObjectMeta, pod: Pod, runs: Iterable[Run], known: frozenset[RunKey], deadline: float) -> Saved:
        """Keep the logs of these runs, but for those that the archive has whole. Raises OSError.

        `known` are runs that need no second attempt although their logs may not be whole. `deadline` is on the
        monotonic clock; what has come by then is kept.
        """
        target = pod_folder(self._root, job.namespace, job.name, job.uid, pod.metadata)
        with self._turns.one_of(target, deadline):
            return self._save(job, pod, target, runs, known, deadline)

    def save_stacks(self, job: ObjectMeta, pod: Pod, container: str, text: str) -> None:
        """Add the stacks of a container's threads to what is kept of the pod. Raises OSError.

        Waits for whoever writes the pod's folder, for as long as the logs of a pod may take.
        """
        target = pod_folder(self._root, job.namespace, job.name, job.uid, pod.metadata)
        with self._turns.one_of(target, self._clock.monotonic() + self.bounds.timeout):
            now = self._clock.now()
            record = read_record(target) or pod_record(job, pod, now, ())
            folder = self._retention.new_folder(target)
            try:
                if not self._retention.claim(folder, min(len(text), MAX_STACKS_BYTES)):
                    raise OSError("the archive has no room for it")
                record = with_stacks(folder, record, container, now, text)
                (folder / RECORD).write_bytes(encode_record(record))
                self._retention.add(folder, target, now)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                self._retention.release(folder)

    def _save(
        self, job: ObjectMeta, pod: Pod, target: Path, runs: Iterable[Run], known: frozenset[RunKey], deadline: float
    ) -> Saved:
        old = read_record(target)
        have = kept_runs(old) | known
        # What a run that goes on has printed is never whole.
        wanted = frozenset(run.key for run in runs if run.end is None or run.key not in have)
        if not wanted:
            return Saved(have)
        folder = self._retention.new_folder(target)
        try:
            attempt = _Attempt(self, pod, folder, old, wanted, have, deadline)
            containers = tuple(attempt.container(status, init=init) for status, init in containers_of(pod))
            if self._closed or not any(one.log or one.previous_log for one in containers):
                return Saved(attempt.kept, tuple(attempt.problems), attempt.worth_another and not self._closed)
            containers = carry_stacks(folder, old, containers)
            now = self._clock.now()
            (folder / RECORD).write_bytes(encode_record(pod_record(job, pod, now, containers)))
            self._retention.add(folder, target, _end_of(pod, now))
            return Saved(
                attempt.kept, tuple(attempt.problems), attempt.worth_another, size=attempt.fetched, new=old is None
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._retention.release(folder)

    def fetch(self, pod: Pod, run: Run, path: Path, deadline: float) -> SavedLog:
        """Fetch the log of one run to a file. Raises KubeError and OSError."""

        def in_time() -> bool:
            return self._clock.monotonic() < deadline

        if not in_time():
            raise KubeError(f"no time was left after {self.bounds.timeout:.0f} s")
        meta = pod.metadata
        with self._source.pod_log(meta.namespace, meta.name, run.container, previous=run.previous) as stream:
            # The API knows logs by the pod's name. A pod that is made anew is made after its predecessor's end was
            # seen, so a cache that shows this one still, now that the log is open, proves whose it is.
            now = self._pod_now(pod)
            if now is None:
                raise _Gone(f"pod {meta.name} has gone")
            if run.end is not None and all(one.key != run.key for one in runs_of(now)):
                raise KubeError("the container was started again meanwhile")
            with self._lock:
                self._streams.add(stream)
            try:
                room = partial(self._retention.claim, path.parent)
                saved = save_log(stream, path, limit=self.bounds.max_log_bytes, in_time=in_time, room=room)
            finally:
                with self._lock:
                    self._streams.discard(stream)
        if self._closed:
            raise KubeError("the operator is stopping")
        return saved


class _Attempt:
    """Fills one new folder. For one thread."""

    def __init__(
        self,
        logs: PodLogs,
        pod: Pod,
        folder: Path,
        old: ArchivedPod | None,
        wanted: frozenset[RunKey],
        have: frozenset[RunKey],
        deadline: float,
    ) -> None:
        self._logs = logs
        self._pod = pod
        self._folder = folder
        self._old = old
        self._wanted = wanted
        self._have = have
        self._deadline = deadline
        self.kept = have
        self.problems: list[str] = []
        self.worth_another = False
        self.fetched = 0

    def container(self, status: ContainerStatus, *, init: bool) -> ArchivedContainer:
        """Save what is wanted of a container. Raises OSError; what the API server refuses is in `problems`."""
        runs = runs_of_container(self._pod, status, init=init)
        saved = {run.previous: self._run(run) for run in runs}
        problem = "; ".join(one.problem for one in saved.values() if one.problem)
        self.problems += [f"{status.name}: {one.problem}" for one in saved.values() if one.problem and not one.gone]
        newest = next((run for run in runs if not run.previous), None)
        before = next((run for run in runs if run.previous), None)
        end = newest.end if newest is not None else None
        return ArchivedContainer(
            name=status.name,
            init=init,
            restarts=status.restart_count,
            exit_code=end.exit_code if end is not None else None,
            reason=end.reason if end is not None else "",
            finished=end.finished_at if end is not None else None,
            log=saved[False].file if newest is not None else "",
            previous_exit_code=before.end.exit_code if before is not None and before.end is not None else None,
            previous_finished=before.end.finished_at if before is not None and before.end is not None else None,
            previous_log=saved[True].file if before is not None else "",
            size=sum(_size(self._folder / one.file) for one in saved.values() if one.file),
            dropped=saved[False].dropped if newest is not None else 0,
            problem=problem,
        )

    def _run(self, run: Run) -> _SavedRun:
        path = self._folder / f"{path_component(run.container)}{'.previous' if run.previous else ''}.log"
        if run.key not in self._wanted:
            return self._kept_before(run, path)
        try:
            saved = self._logs.fetch(self._pod, run, path, self._deadline)
        except KubeError as error:
            return self._not_fetched(run, path, error)
        path.chmod(0o640)
        self.fetched += saved.size
        self.kept |= {run.key}
        problem = "" if saved.complete else f"cut off after {self._logs.bounds.timeout:.0f} s"
        if saved.full:
            problem = "the archive has no room for it; others' logs are not removed for a namespace that has more"
        return _SavedRun(path.name, saved.dropped, problem)

    def _not_fetched(self, run: Run, path: Path, error: KubeError) -> _SavedRun:
        gone = _has_gone(error, self._pod)
        problem = str(error)
        if gone:
            logger.info("%s has gone, and a log with it: %s", self._pod.metadata.name, error)
            problem = "the pod was gone before the rest could be fetched"
        elif not isinstance(error, BadRequestError):
            self.worth_another = True
        if _size(path):
            path.chmod(0o640)
            self.fetched += _size(path)
            return _SavedRun(path.name, problem=problem, gone=gone)
        path.unlink(missing_ok=True)
        before = self._kept_before(run, path)
        return msgspec.structs.replace(before, problem=problem if before.file or not gone else "", gone=gone)

    def _kept_before(self, run: Run, path: Path) -> _SavedRun:
        """What the archive has of the run, be it of the time when it went on."""
        name = file_of(self._old, run)
        if self._old is None or not name or os.sep in name:
            return _SavedRun()
        try:
            link(Path(self._old.folder) / name, path)
        except FileNotFoundError:  # removed meanwhile, to make room
            return _SavedRun()
        dropped = next((one.dropped for one in self._old.containers if one.log == name), 0)
        return _SavedRun(path.name, dropped)


class _Gone(KubeError):
    """The pod that is meant is not there any more."""


def _has_gone(error: KubeError, pod: Pod) -> bool:
    """Whether the pod is what was not found; its node may be (as `pods "node-1" not found`), and then a log is lost."""
    if not isinstance(error, NotFoundError):
        return isinstance(error, _Gone)
    details = error.status.details
    return details is None or details.name in ("", pod.metadata.name)


def _end_of(pod: Pod, now: datetime) -> datetime:
    """When the pod last had something to say: the archive forgets by that, and not by when it was told."""
    ends = [run.end.finished_at if run.end is not None else None for run in runs_of(pod)]
    times = [end for end in ends if end is not None]
    return min(max(times), now) if len(times) == len(ends) and times else now


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
