"""The logs of all containers of a node: one file per container and attempt.

`<root>/<namespace>/<pod>/<container>/<attempt>.log`, attempts counted from 0 over the pods of that name. Other users of
the machine can't read them. They have no times in them, so their growth is watched instead.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.local.private_files import private_folder
from tfoperator.local.runtime import LogFile, LogRequest, tail_offset

_POLL = 0.1
"""Seconds between two reads of a file that is being followed: short for a person, cheap for the machine."""


_CHUNK = 64 * 1024
_LONGEST_LINE = 64 * 1024
"""Bytes after which an unfinished line is handed on with its time, as a line of its own."""


_MOST = 50_000
"""Samples of one log, 16 bytes each, after which every other growth is passed over; after as many again three of four,
and so on: the longer a log grows, the rougher its times are."""


class LineTimes:
    """How large one log was, and when. Thread-safe. What has been said of a line stays so: later samples lie behind it.

    A time is that of the first sample which has seen the line, so it is late by the time between two samples at most.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._sizes = array("q")
        self._times = array("d")
        self._every = 1
        self._passed = 0

    def note(self, size: int, now: datetime, *, read: bool = False) -> None:
        """At this time the log has so many bytes. `read`: somebody reads them now, so this can't be passed over."""
        with self._lock:
            if size <= (self._sizes[-1] if self._sizes else 0):
                return
            self._passed += 1
            if self._passed < self._every and not read:
                return
            self._passed = 0
            if len(self._sizes) >= _MOST * self._every.bit_length():
                self._every *= 2
            self._sizes.append(size)
            # A clock that is set back does not make a line older than the one before.
            self._times.append(max(now.timestamp(), self._times[-1] if self._times else 0.0))

    def written(self, offset: int) -> datetime:
        """When the line that begins at this byte was written. It has to lie before the last sample."""
        with self._lock:
            index = min(bisect_right(self._sizes, offset), len(self._sizes) - 1)
            return datetime.fromtimestamp(self._times[index] if index >= 0 else 0.0, UTC)

    def offset_at(self, since: datetime) -> int:
        """How many bytes were there before this time: lines that begin behind them were written since."""
        with self._lock:
            index = bisect_left(self._times, since.timestamp())
            return self._sizes[index - 1] if index else 0


def start_of(path: Path, times: LineTimes, tail_lines: int | None, since: datetime | None) -> int:
    """Where to begin: with the last so many lines, and with no line that was written before a time."""
    start = 0 if tail_lines is None else tail_offset(path, tail_lines)
    if since is None:
        return start
    return max(start, _next_line(path, times.offset_at(since)))


def _next_line(path: Path, offset: int) -> int:
    """The first byte of a line that begins at this byte or behind it; the end of the file if there is none."""
    if offset == 0:
        return 0
    with path.open("rb") as stream:
        stream.seek(offset - 1)
        while block := stream.readline(_CHUNK):
            if block.endswith(b"\n"):
                break
        return stream.tell()


def pieces(stream: BinaryIO, note: Callable[[], int]) -> Iterator[bytes]:
    """What there is, up to where `note` sees the end."""
    end = note()
    while (left := end - stream.tell()) > 0 and (piece := stream.read(min(_CHUNK, left))):
        yield piece


class TimedLines:
    """Puts its time before each line of a log that is read from `start` on. Not thread-safe."""

    def __init__(self, times: LineTimes, start: int) -> None:
        self._times = times
        self._start = start
        self._rest = b""

    def add(self, piece: bytes) -> bytes:
        """The lines that this piece completes, with their times."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            return b"".join(map(self._timed, lines)) + self.finish()
        return b"".join(map(self._timed, lines))

    def finish(self) -> bytes:
        """The last line, which has no end; nothing if there is none."""
        rest, self._rest = self._rest, b""
        if not rest:
            return b""
        timed = self._timed(rest)
        self._start -= 1  # it had no end
        return timed

    def _timed(self, line: bytes) -> bytes:
        when = self._times.written(self._start)
        self._start += len(line) + 1
        return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond:06d}000Z ".encode() + line + b"\n"


def size_of(stream: BinaryIO) -> int:
    """How many bytes the file has."""
    return os.fstat(stream.fileno()).st_size


class LogNotFound(LookupError):
    """There is no log (yet) for what was asked."""


class LogStore:
    """All logs of one agent. Thread-safe. After `close()` every follower ends at the end of its file."""

    def __init__(self, root: Path, *, clock: Clock | None = None) -> None:
        self.root = root
        self._clock = clock or SystemClock()
        self._stopped = StopSignal()
        self._lock = threading.Lock()  # guards what follows
        self._latest: dict[tuple[str, str, str], list[LogFile]] = {}
        self._times: dict[LogFile, LineTimes] = {}
        self._growing: list[LogFile] = []

    def open(self, namespace: str, pod: str, container: str, *, owner: str = "") -> LogFile:
        """Begin the log of the next attempt, of the pod with the UID `owner`; the file exists when this returns."""
        key = (namespace, pod, container)
        directory = self.root.joinpath(*key)
        private_folder(self.root)
        directory.mkdir(parents=True, exist_ok=True)
        with self._lock:
            known = self._latest.setdefault(key, [])
            attempt = known[-1].attempt + 1 if known else _next_attempt(directory)
            log = LogFile(directory / f"{attempt}.log", owner)
            log.path.touch(mode=0o600)
            known.append(log)
            self._times[log] = LineTimes()
            self._growing.append(log)
            return log

    def attempts(self, namespace: str, pod: str, container: str) -> tuple[LogFile, ...]:
        """The logs of one container, oldest first."""
        with self._lock:
            return tuple(self._latest.get((namespace, pod, container), ()))

    def written(self, namespace: str, pod: str, container: str) -> datetime | None:
        """When something was last written to the container's log; None if there is no log, or nothing in it."""
        logs = self.attempts(namespace, pod, container)
        try:
            found = logs[-1].path.stat() if logs else None
        except OSError:
            return None
        return datetime.fromtimestamp(found.st_mtime, UTC) if found is not None and found.st_size else None

    def all(self) -> tuple[tuple[str, str, str, LogFile], ...]:
        """Every log with its namespace, pod and container, in the order in which the containers first began."""
        with self._lock:
            return tuple((*key, log) for key, logs in self._latest.items() for log in logs)

    def read(self, wanted: LogRequest) -> Iterator[bytes]:
        """What is wanted, in pieces; with `follow`, until the container ends.

        Times are as exact as the calls of `note_times` are close. A follower gets an empty piece now and then while
        there is nothing new, so that it can give up. `container` may be "" when the pod has only one. Raises
        LogNotFound at once, not while iterating.
        """
        return self._read(self._find(wanted), wanted)

    def note_times(self) -> None:
        """Note how far each log has grown: lines that were written since the last call have this time."""
        with self._lock:
            growing = tuple(self._growing)
        ended = set()
        for log in growing:
            closed = log.closed  # asked before the size: nothing is written after it is true
            try:
                size = log.path.stat().st_size
            except OSError:
                ended.add(log)
                continue
            self._times[log].note(size, self._clock.now())
            if closed:
                ended.add(log)
        if ended:
            with self._lock:
                self._growing = [log for log in self._growing if log not in ended]

    def close(self) -> None:
        """End all followers."""
        self._stopped.set()

    def _find(self, wanted: LogRequest) -> LogFile:
        where = f"pod {wanted.namespace}/{wanted.pod}"
        with self._lock:
            containers = [key[2] for key in self._latest if key[:2] == (wanted.namespace, wanted.pod)]
            if not wanted.container and len(containers) > 1:
                raise LogNotFound(f"{where} has several containers, choose one of {', '.join(containers)}")
            name = wanted.container or (containers[0] if containers else "")
            logs = self._latest.get((wanted.namespace, wanted.pod, name), [])
            # As a kubelet has it: what an earlier pod of that name did was not this one's previous run.
            logs = [log for log in logs if log.owner == logs[-1].owner]
        if len(logs) < (2 if wanted.previous else 1):
            what = "previous container" if wanted.previous else "container"
            raise LogNotFound(f"{what} {name!r} of {where} has not started")
        return logs[-2 if wanted.previous else -1]

    def _read(self, log: LogFile, wanted: LogRequest) -> Iterator[bytes]:
        times = self._times[log]
        with log.path.open("rb") as stream:

            def note() -> int:
                size = size_of(stream)
                times.note(size, self._clock.now(), read=True)
                return size

            note()
            stream.seek(start_of(log.path, times, wanted.tail_lines, wanted.since))
            timed = TimedLines(times, stream.tell()) if wanted.timestamps else None
            while True:
                ended = (
                    log.closed or self._stopped.is_set() or not wanted.follow
                )  # asked before reading: no last words lost
                if size_of(stream) < stream.tell():  # the program has emptied it, as `> /dev/stderr` does
                    stream.seek(0)
                    timed = TimedLines(times, 0) if wanted.timestamps else None
                for piece in pieces(stream, note):
                    yield timed.add(piece) if timed is not None else piece
                if ended:
                    if timed is not None:
                        yield timed.finish()
                    return
                self._stopped.wait(self._clock, _POLL)
                yield b""


def _next_attempt(directory: Path) -> int:
    numbers = [int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit()]
    return max(numbers, default=-1) + 1
