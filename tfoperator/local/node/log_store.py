"""The logs of all containers of a node: one file per container and attempt.

The path of a log is `<root>/<namespace>/<pod>/<container>/<attempt>.log`. Attempts are counted from 0, and pods of the
same name share the count. Other users of the machine can't read the logs. The lines of the logs have no timestamps.
Instead, the store measures the size of each log from time to time (see `LineTimes`), so the times of lines are not
exact.
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
from tfoperator.base.files import tail_offset
from tfoperator.base.private_files import private_folder
from tfoperator.local.runtime.log_files import LogFile, LogRequest

_POLL_INTERVAL = 0.1
"""Seconds between two reads of a file that a client follows. A user does not notice such a delay, and reads at this
rate cost little CPU.
"""


_CHUNK_SIZE = 256 * 1024
_MAX_LINE_SIZE = 64 * 1024
"""If a line is not complete and already has more bytes than this, `TimedLines` returns it as a line of its own, with
its time.
"""


_MOST = 50_000
"""A limit for the samples of a long log, which have 16 bytes each. After this number of samples, only every second
increase of the log's size is recorded. After twice this number, only every fourth increase is recorded, and so on. So
the longer a log grows, the less exact the times of its lines are.
"""


class LineTimes:
    """Samples of the size of one log over time. Thread-safe. Later samples never change the time of a line.

    The time of a line is the time of the first sample that includes the line. So a line's time is too late, but by at
    most the time between two samples.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the fields below
        self._sizes = array("q")
        self._times = array("d")
        self._every = 1
        self._passed = 0

    def note(self, size: int, now: datetime, *, read: bool = False) -> None:
        """Record the log's size in bytes at this time.

        A size that has not grown is ignored. To save memory, the more samples there are, the more of the new samples
        are skipped. With `read`, the sample is not skipped, because a client now reads the lines and needs their times.
        """
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
            # If the clock is set back, a line must not become older than the line before.
            self._times.append(max(now.timestamp(), self._times[-1] if self._times else 0.0))

    def written(self, offset: int) -> datetime:
        """Return when the line that starts at this byte was written. The last sample must include this byte."""
        with self._lock:
            index = min(bisect_right(self._sizes, offset), len(self._sizes) - 1)
            return datetime.fromtimestamp(self._times[index] if index >= 0 else 0.0, UTC)

    def offset_at(self, since: datetime) -> int:
        """Return the log's size in bytes at the last sample before `since`. Lines that start at this byte or later have
        the time `since` or a later time.
        """
        with self._lock:
            index = bisect_left(self._times, since.timestamp())
            return self._sizes[index - 1] if index else 0


def start_of(stream: BinaryIO, times: LineTimes, tail_lines: int | None, since: datetime | None) -> int:
    """Return the offset from which to read.

    Skip lines before the last `tail_lines` lines, and lines that were written before `since`.
    """
    start = 0 if tail_lines is None else tail_offset(stream, tail_lines)
    if since is None:
        return start
    return max(start, _next_line(stream, times.offset_at(since)))


def _next_line(stream: BinaryIO, offset: int) -> int:
    """Return the offset of the first line that starts at or after this byte.

    If no line starts there, return the size of the file.
    """
    if offset == 0:
        return 0
    stream.seek(offset - 1)
    while block := stream.readline(_CHUNK_SIZE):
        if block.endswith(b"\n"):
            break
    return stream.tell()


def pieces(stream: BinaryIO, note: Callable[[], int]) -> Iterator[bytes]:
    """Yield the stream's content in pieces, up to the present size of the file.

    `note` records this size, and returns it.
    """
    end = note()
    while (left := end - stream.tell()) > 0 and (piece := stream.read(min(_CHUNK_SIZE, left))):
        yield piece


class TimedLines:
    """Writes the time of each line before the line. The log is read from the byte `start`. Not thread-safe."""

    def __init__(self, times: LineTimes, start: int) -> None:
        self._times = times
        self._start = start
        self._rest = b""

    def add(self, piece: bytes) -> bytes:
        """Return the lines that are complete after this piece, with their times."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _MAX_LINE_SIZE:
            return b"".join(map(self._timed, lines)) + self.finish()
        return b"".join(map(self._timed, lines))

    def finish(self) -> bytes:
        """Return the last line, which has no newline; b"" if there is none."""
        rest, self._rest = self._rest, b""
        if not rest:
            return b""
        timed = self._timed(rest)
        self._start -= 1  # the last line had no newline
        return timed

    def _timed(self, line: bytes) -> bytes:
        when = self._times.written(self._start)
        self._start += len(line) + 1
        return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond:06d}000Z ".encode() + line + b"\n"


def size_of(stream: BinaryIO) -> int:
    """Return the size of the file in bytes."""
    return os.fstat(stream.fileno()).st_size


class LogNotFound(LookupError):
    """There is no log for the request, or no log yet."""


class LogStore:
    """All logs of one agent.

    Thread-safe. After `close()`, every reader that follows a log ends at the end of its file.
    """

    def __init__(self, root: Path, *, clock: Clock | None = None) -> None:
        self.root = root
        self._clock = clock or SystemClock()
        self._stopped = StopSignal()
        self._lock = threading.Lock()  # guards the fields below
        self._latest: dict[tuple[str, str, str], list[LogFile]] = {}
        self._times: dict[LogFile, LineTimes] = {}
        self._growing: list[LogFile] = []

    def open(self, namespace: str, pod: str, container: str, *, owner: str = "") -> LogFile:
        """Create the log of the next attempt, for the pod with the UID `owner`.

        When the method returns, the file exists.
        """
        key = (namespace, pod, container)
        directory = self.root.joinpath(*key)
        private_folder(self.root)
        directory.mkdir(parents=True, exist_ok=True)
        with self._lock:
            attempts = self._latest.setdefault(key, [])
            attempt = attempts[-1].attempt + 1 if attempts else _next_attempt(directory)
            log = LogFile(directory / f"{attempt}.log", owner)
            log.path.touch(mode=0o600)
            attempts.append(log)
            self._times[log] = LineTimes()
            self._growing.append(log)
            return log

    def reopen(self, *, growing: bool = False) -> None:
        """Use existing logs that another process writes.

        Call this method instead of `open`. It may be called several times. With `growing`, that process still writes,
        so the last log of a container stays open. The method does not follow links.
        """
        paths = [path for path in self.root.glob("*/*/*/*.log") if path.stem.isdecimal() and not path.is_symlink()]
        with self._lock:
            for path in sorted(paths, key=lambda path: int(path.stem)):
                namespace, pod, container, _ = path.relative_to(self.root).parts
                logs = self._latest.setdefault((namespace, pod, container), [])
                if not logs or logs[-1].attempt < int(path.stem):
                    log, times, kept = LogFile(path), LineTimes(), path.stat()
                    times.note(kept.st_size, datetime.fromtimestamp(kept.st_mtime, UTC))
                    logs.append(log)
                    self._times[log] = times
            for logs in self._latest.values():
                for log in logs[:-1] if growing else logs:
                    log.close()

    def attempts(self, namespace: str, pod: str, container: str) -> tuple[LogFile, ...]:
        """Return the logs of one container, oldest first."""
        with self._lock:
            return tuple(self._latest.get((namespace, pod, container), ()))

    def written(self, namespace: str, pod: str, container: str) -> datetime | None:
        """Return when something was last written to the container's log.

        Return None if there is no log, or if it is empty.
        """
        logs = self.attempts(namespace, pod, container)
        try:
            status = logs[-1].path.stat() if logs else None
        except OSError:
            return None
        return datetime.fromtimestamp(status.st_mtime, UTC) if status is not None and status.st_size else None

    def all(self) -> tuple[tuple[str, str, str, LogFile], ...]:
        """Return (namespace, pod, container, log) of every log, in the order in which the containers first started."""
        with self._lock:
            return tuple((*key, log) for key, logs in self._latest.items() for log in logs)

    def read(self, wanted: LogRequest) -> Iterator[bytes]:
        """Return the requested part of a log, in pieces. With `follow`, continue until the container ends.

        With `timestamps`, the time of a line is too late by at most the interval between two calls of `note_times`.
        With `follow`, the iterator yields b"" every 0.1 seconds while nothing new is written, so that the caller can
        stop. If the pod has only one container, `container` may be "". Raises LogNotFound at once, not during the
        iteration.
        """
        return self._read(self._find(wanted), wanted)

    def note_times(self) -> None:
        """Record the size of each log at the present time. Lines that were written since the last call get the present
        time.
        """
        with self._lock:
            growing = tuple(self._growing)
        ended = set()
        for log in growing:
            closed = log.closed  # read before the size: once it is true, nothing more is written
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
        """End all readers that follow logs."""
        self._stopped.set()

    def _find(self, wanted: LogRequest) -> LogFile:
        where = f"pod {wanted.namespace}/{wanted.pod}"
        with self._lock:
            containers = [key[2] for key in self._latest if key[:2] == (wanted.namespace, wanted.pod)]
            if not wanted.container and len(containers) > 1:
                raise LogNotFound(f"{where} has several containers, choose one of {', '.join(containers)}")
            name = wanted.container or (containers[0] if containers else "")
            logs = self._latest.get((wanted.namespace, wanted.pod, name), [])
            # As with a kubelet, `previous` never means a run of an earlier pod with the same name.
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
            stream.seek(start_of(stream, times, wanted.tail_lines, wanted.since))
            timed = TimedLines(times, stream.tell()) if wanted.timestamps else None
            while True:
                ended = (
                    log.closed or self._stopped.is_set() or not wanted.follow
                )  # read before the file: the last output must not be lost
                if size_of(stream) < stream.tell():  # the program has truncated the log, as `> /dev/stderr` does
                    stream.seek(0)
                    timed = TimedLines(times, 0) if wanted.timestamps else None
                for piece in pieces(stream, note):
                    yield timed.add(piece) if timed is not None else piece
                if ended:
                    if timed is not None:
                        yield timed.finish()
                    return
                self._stopped.wait(self._clock, _POLL_INTERVAL)
                yield b""


def _next_attempt(directory: Path) -> int:
    numbers = [int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit()]
    return max(numbers, default=-1) + 1
