"""Container logs as files: one per container and attempt, written by the container itself, read by whoever asks.

`<root>/<namespace>/<pod>/<container>/<attempt>.log`, attempts counted from 0 over the pods of that name. The
process writes straight into the file: nothing is lost when the agent dies, and nothing here can slow it down.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tfoperator.clock import Clock, StopSignal, SystemClock

__all__ = ["LogFile", "LogNotFound", "LogStore", "last_lines"]

_CHUNK = 64 * 1024
_POLL = 0.1
"""Seconds between two looks at a file that is being followed: quick for a person, cheap for the machine."""


class LogNotFound(LookupError):
    """There is no log (yet) for what was asked."""


class LogFile:
    """One attempt's log. Thread-safe.

    Once `closed`, `exit_code` is how the container ended, None if it never ran to an end, and `stopped` says that it
    had been asked to end: its exit code then says nothing about its work. `owner` is the UID of the pod.
    """

    def __init__(self, path: Path, owner: str = "") -> None:
        self.path = path
        self.owner = owner
        self.exit_code: int | None = None
        self.stopped = False
        self._closed = threading.Event()

    @property
    def attempt(self) -> int:
        """Which attempt, from 0."""
        return int(self.path.stem)

    @property
    def closed(self) -> bool:
        """Whether the container has ended, so that nothing more will be written."""
        return self._closed.is_set()

    def close(self, exit_code: int | None = None, *, stopped: bool = False) -> None:
        """Tell followers that this is all. Only the first call counts."""
        if not self._closed.is_set():
            self.exit_code, self.stopped = exit_code, stopped
            self._closed.set()

    def append(self, line: str) -> None:
        """Write a line of the agent's own, for what a user would look for here: why the container did not start."""
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")


class LogStore:
    """All logs of one agent. Thread-safe. After `close()` every follower ends at the end of its file."""

    def __init__(self, root: Path, *, clock: Clock | None = None) -> None:
        self.root = root
        self._clock = clock or SystemClock()
        self._stopped = StopSignal()
        self._lock = threading.Lock()  # guards _latest
        self._latest: dict[tuple[str, str, str], list[LogFile]] = {}

    def open(self, namespace: str, pod: str, container: str, *, owner: str = "") -> LogFile:
        """Begin the log of the next attempt, of the pod with the UID `owner`; the file exists when this returns."""
        key = (namespace, pod, container)
        directory = self.root.joinpath(*key)
        directory.mkdir(parents=True, exist_ok=True)
        with self._lock:
            known = self._latest.setdefault(key, [])
            attempt = known[-1].attempt + 1 if known else _next_attempt(directory)
            log = LogFile(directory / f"{attempt}.log", owner)
            log.path.touch()
            known.append(log)
            return log

    def attempts(self, namespace: str, pod: str, container: str) -> tuple[LogFile, ...]:
        """The logs of one container, oldest first."""
        with self._lock:
            return tuple(self._latest.get((namespace, pod, container), ()))

    def all(self) -> tuple[tuple[str, str, str, LogFile], ...]:
        """Every log with its namespace, pod and container, in the order in which the containers first began."""
        with self._lock:
            return tuple((*key, log) for key, logs in self._latest.items() for log in logs)

    def read(
        self,
        namespace: str,
        pod: str,
        container: str,
        previous: bool = False,
        follow: bool = False,
        tail_lines: int | None = None,
    ) -> Iterator[bytes]:
        """The content of the latest attempt (or the one before), in pieces; with `follow`, until the container ends.

        A follower gets an empty piece now and then while there is nothing new, so that it can give up. `container`
        may be "" when the pod has only one. Raises LogNotFound at once, not while iterating.
        """
        log = self._find(namespace, pod, container, previous)
        return self._read(log, follow, tail_lines)

    def close(self) -> None:
        """End all followers."""
        self._stopped.set()

    def _find(self, namespace: str, pod: str, container: str, previous: bool) -> LogFile:
        with self._lock:
            containers = [key[2] for key in self._latest if key[:2] == (namespace, pod)]
            if not container and len(containers) > 1:
                raise LogNotFound(
                    f"pod {namespace}/{pod} has several containers, choose one of {', '.join(containers)}"
                )
            name = container or (containers[0] if containers else "")
            logs = self._latest.get((namespace, pod, name), [])
            # As a kubelet has it: what an earlier pod of that name did was not this one's previous run.
            logs = [log for log in logs if log.owner == logs[-1].owner]
        if len(logs) < (2 if previous else 1):
            what = "previous container" if previous else "container"
            raise LogNotFound(f"{what} {name!r} of pod {namespace}/{pod} has not started")
        return logs[-2 if previous else -1]

    def _read(self, log: LogFile, follow: bool, tail_lines: int | None) -> Iterator[bytes]:
        with log.path.open("rb") as stream:
            if tail_lines is not None:
                stream.seek(_tail_offset(log.path, tail_lines))
            while True:
                ended = log.closed or self._stopped.is_set() or not follow  # asked before reading: no last words lost
                while piece := stream.read(_CHUNK):
                    yield piece
                if ended:
                    return
                self._stopped.wait(self._clock, _POLL)
                yield b""


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log, without line ends; undecodable bytes are replaced. Empty if there is no file."""
    try:
        with path.open("rb") as stream:
            stream.seek(_tail_offset(path, count))
            lines = deque(stream.read().decode(errors="replace").splitlines(), maxlen=count)
    except OSError:
        return []
    return list(lines)


def _next_attempt(directory: Path) -> int:
    numbers = [int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit()]
    return max(numbers, default=-1) + 1


def _tail_offset(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin. Reads backwards: a log may be far larger than its end."""
    with path.open("rb") as stream:
        end = position = stream.seek(0, os.SEEK_END)
        if lines <= 0:
            return end
        wanted = lines
        while position > 0:
            size = min(_CHUNK, position)
            position -= size
            stream.seek(position)
            block = stream.read(size)
            if position + size == end and block.endswith(b"\n"):
                block = block[:-1]  # the line end of the last line begins no other line
            found = block.count(b"\n")
            if found < wanted:
                wanted -= found
                continue
            index = len(block)
            for _ in range(wanted):
                index = block.rindex(b"\n", 0, index)
            return position + index + 1
        return 0
