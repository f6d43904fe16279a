"""Stacks of the node's containers, kept beside their logs: on request, and before an operator ends a stalled job."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.objects import ObjectMeta, Pod

logger = logging.getLogger(__name__)

STACKS_SUFFIX = ".stacks.txt"
"""The suffix that replaces a log's own for the stacks of its program: `0.log`, `0.stacks.txt`."""

_MAX_THREADS = 8
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def stacks_file(log: Path) -> Path:
    """Return the file for the stacks of the program that writes this log."""
    return log.with_suffix(STACKS_SUFFIX)


_NO_STACKS_PREFIX = "No stacks: "
_TIME_PREFIX = "Stacks at "


def kept_stacks(log: Path) -> tuple[str, str]:
    """Return the file with stacks of the program that writes this log, or why there are none although requested.

    One of the two is "": both, if no stacks were requested.
    """
    file, why = stacks_file(log), ""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(_NO_STACKS_PREFIX):
                    why = line.removeprefix(_NO_STACKS_PREFIX).strip()
                elif line.strip() and not line.startswith(_TIME_PREFIX):
                    return str(file), ""
    except OSError:
        pass
    return "", why


def keep_stacks(log: Path, when: str, text: str) -> None:
    """Append stacks to their file, which only this user can read. If that fails, it is logged and they are lost."""
    try:
        descriptor = os.open(stacks_file(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(f"{_TIME_PREFIX}{when}\n{text}\n")
    except OSError as error:
        logger.warning("can't keep stacks beside %s: %s", log, error)


@dataclass
class _Taking:
    """One request for the stacks of a job: how many pods are still missing. Guarded by the lock."""

    open: int
    done: Callable[[], object]


class NodeStacks:
    """A `StackKeeper` of the node's pods. Thread-safe; it starts no thread before the first call. `close()` ends it."""

    def __init__(self, take: Callable[[str], object], *, clock: Clock | None = None) -> None:
        """`take` takes and keeps the stacks of the pod with this UID, and may block."""
        self._take = take
        self._clock = clock or SystemClock()
        self._pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="stacks")
        self._lock = threading.Lock()  # guards the fields below
        self._taken: dict[str, datetime] = {}  # by job uid
        self._open: dict[str, _Taking] = {}  # by job uid
        self._closed = False

    def taken(self, uid: str) -> datetime:
        """Return when the stacks of the job with this UID were last taken; 1970 if never."""
        with self._lock:
            return self._taken.get(uid, _NEVER)

    def take(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Start to take the stacks of these pods, unless that is in progress; `done` is called when all are taken."""
        with self._lock:
            if self._closed or job.uid in self._open or not pods:
                return
            taking = self._open[job.uid] = _Taking(len(pods), done)
            for pod in pods:
                self._pool.submit(self._take_one, job.uid, pod.metadata.uid, taking)

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        with self._lock:
            self._taken.pop(uid, None)
            self._open.pop(uid, None)

    def close(self) -> None:
        """Accept no more requests, and wait for those in progress."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _take_one(self, job: str, pod: str, taking: _Taking) -> None:
        try:
            self._take(pod)
        except Exception:
            logger.exception("taking the stacks of pod %s failed", pod)
        with self._lock:
            taking.open -= 1
            # If the job was deleted meanwhile, `forget` has removed it.
            over = taking.open == 0 and self._open.get(job) is taking
            if over:
                del self._open[job]
                self._taken[job] = self._clock.now()
        if over:
            taking.done()
