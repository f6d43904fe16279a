"""Reads one log while it is written: complete lines, the number of skipped lines, and the text of a progress bar."""

from __future__ import annotations

import os
from typing import BinaryIO

from tfoperator.base.controlchars import shown_line
from tfoperator.local.runtime.log_files import LogFile

_CHUNK_SIZE = 1024 * 1024
_MAX_LINE_SIZE = 64 * 1024
"""If a line has more bytes than this and no end yet, its first part counts as a line: the end may never come."""


_TRUNCATED_LINE = b"... the program has emptied its log, as `> /dev/stderr` does: `>&2` would not\n"
"""This text is shown if a log has become shorter: its earlier content is lost."""


class UnreadLog:
    """The lines of one log that `take` has not returned yet. Not thread-safe."""

    def __init__(self, log: LogFile) -> None:
        self.log = log
        self._stream: BinaryIO | None = None
        self._position = 0  # the file has been read up to this byte
        self._complete = b""  # whole lines, with their ends
        self._rest = b""  # the content after the last line end
        self._skipped = 0
        self._ended = False
        self.more = False
        """Whether the log had more content than was requested, at the last read."""

    @property
    def finished(self) -> bool:
        """Whether the container has ended and all content was taken."""
        return self._ended and not self._complete and not self._skipped

    @property
    def bar(self) -> str:
        """The present text of a progress bar; "" if there is none.

        A progress bar is a last line without a line end, which the program rewrites with carriage returns.
        """
        return _text(self._rest).rstrip("\b ") if b"\r" in self._rest[:-1] else ""

    def fill(self, most: int, *, may_skip: bool) -> int:
        """Read up to `most` bytes in advance. Return how many lines can be taken.

        With `may_skip`, lines before the last `most` bytes of the log are skipped, but counted.
        """
        if self._ended:
            return self._complete.count(b"\n")
        closed = self.log.closed  # read before the file: once it is true, nothing more is written
        if self._stream is None:
            self._stream = self.log.path.open("rb")
        waiting = os.fstat(self._stream.fileno()).st_size - self._position
        if waiting < 0:
            waiting += self._position
            self._begin_again()
        self.more = waiting > most - len(self._complete)
        if may_skip and self.more:
            self._pass_over(self._position + waiting - most)
            waiting = most
        self._add(self._read(min(waiting, most - len(self._complete))))
        if closed and self._at_end():
            self._end()
        return self._complete.count(b"\n")

    def take(self, most: int, *, newest: bool = False) -> tuple[int, list[str]]:
        """Return the number of lines that were skipped since the last call, and up to `most` lines.

        The method does not read the file: it takes lines that `fill` has read. With `newest`, take the newest lines,
        and skip the lines before them. Otherwise take the next lines.
        """
        if newest:
            cut = self._complete.count(b"\n") - most
            if cut > 0:
                self._complete = self._complete.split(b"\n", cut)[-1]
                self._skipped += cut
        lines = self._complete.split(b"\n", most)
        self._complete = lines.pop()
        skipped, self._skipped = self._skipped, 0
        return skipped, [_text(line) for line in lines]

    def give_up(self) -> None:
        """Stop reading, because the file no longer exists or can't be read."""
        self._end()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _at_end(self) -> bool:
        assert self._stream is not None
        return os.fstat(self._stream.fileno()).st_size <= self._position

    def _begin_again(self) -> None:
        assert self._stream is not None
        self._stream.seek(0)
        self._position = 0
        self._complete += (self._rest + b"\n" if self._rest else b"") + _TRUNCATED_LINE
        self._rest = b""

    def _end(self) -> None:
        if self._rest:
            self._complete += self._rest + b"\n"
            self._rest = b""
        self._ended = True
        self.close()

    def _read(self, size: int) -> bytes:
        assert self._stream is not None
        block = self._stream.read(size) if size > 0 else b""
        self._position += len(block)
        return block

    def _add(self, block: bytes) -> None:
        whole, end, rest = (self._rest + block).rpartition(b"\n")
        self._complete += whole + end
        state = rest.rstrip(b"\r")
        if b"\r" in state:
            # Keep only the last state of a progress bar. The carriage return before this state marks it as a bar.
            state = b"\r" + state.rpartition(b"\r")[2]
        rest = state + rest[len(rest.rstrip(b"\r")) :][:1]
        if len(rest) > _MAX_LINE_SIZE:
            self._complete += rest + b"\n"
            rest = b""
        self._rest = rest

    def _pass_over(self, target: int) -> None:
        """Skip the content before the position `target`, and count the lines that end in this content.

        Keep the start of the line that contains `target`.
        """
        self._skipped += self._complete.count(b"\n")
        self._complete = b""
        while self._position < target:
            block = self._read(min(_CHUNK_SIZE, target - self._position))
            if not block:
                return
            passed = block.count(b"\n")
            self._skipped += passed
            begun = block.rpartition(b"\n")[2] if passed else self._rest + block
            self._rest = begun[-_MAX_LINE_SIZE:]


def _text(line: bytes) -> str:
    return shown_line(line.decode(errors="replace"))
