"""Stacks of what runs on the node, kept beside the logs: on demand, and for an operator before it ends a stall."""

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
"""What the name of a log ends in for the stacks of its threads: `0.log`, `0.stacks.txt`."""

_AT_ONCE = 8
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def stacks_file(log: Path) -> Path:
    """Where the stacks are kept of the program whose log this is."""
    return log.with_suffix(STACKS_SUFFIX)


_NONE = "No stacks: "
_TIME = "Stacks at "


def kept_stacks(log: Path) -> tuple[str, str]:
    """The file with stacks of the program whose log this is, or why there are none where they were asked for.

    One of the two is "": both, if nobody has asked.
    """
    file, why = stacks_file(log), ""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(_NONE):
                    why = line.removeprefix(_NONE).strip()
                elif line.strip() and not line.startswith(_TIME):
                    return str(file), ""
    except OSError:
        pass
    return "", why


def keep_stacks(log: Path, when: str, text: str) -> None:
    """Append stacks to their file, which only this user can read. What can't be written is logged, and lost."""
    try:
        descriptor = os.open(stacks_file(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(f"{_TIME}{when}\n{text}\n")
    except OSError as error:
        logger.warning("can't keep stacks beside %s: %s", log, error)


@dataclass
class _Taking:
    """One time that the stacks of a job are taken: of how many pods they are missing. Guarded by the lock."""

    open: int
    done: Callable[[], object]


class NodeStacks:
    """A `StackKeeper` of the node's pods. Thread-safe; it has no thread before the first stall. `close()` ends it."""

    def __init__(self, take: Callable[[str], object], *, clock: Clock | None = None) -> None:
        """`take` takes and keeps the stacks of the pod with a UID, and may block."""
        self._take = take
        self._clock = clock or SystemClock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="stacks")
        self._lock = threading.Lock()  # guards what follows
        self._taken: dict[str, datetime] = {}  # by job uid
        self._open: dict[str, _Taking] = {}  # by job uid
        self._closed = False

    def taken(self, uid: str) -> datetime:
        """When those of the job with this UID were last taken; 1970 if never."""
        with self._lock:
            return self._taken.get(uid, _NEVER)

    def take(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Begin to take them, unless that is under way; `done` is called when all are taken."""
        with self._lock:
            if self._closed or job.uid in self._open or not pods:
                return
            taking = self._open[job.uid] = _Taking(len(pods), done)
            for pod in pods:
                self._pool.submit(self._take_one, job.uid, pod.metadata.uid, taking)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        with self._lock:
            self._taken.pop(uid, None)
            self._open.pop(uid, None)

    def close(self) -> None:
        """Begin with no more, and wait for what is under way."""
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
            # A job that is gone has been forgotten meanwhile.
            over = taking.open == 0 and self._open.get(job) is taking
            if over:
                del self._open[job]
                self._taken[job] = self._clock.now()
        if over:
            taking.done()
