"""Standard output and error as they really are: missing, full, in another encoding, or gone while a job runs.

A program that is piped into `head`, whose disk fills up or whose terminal is closed must end like one that was asked
to, with its jobs stopped in order, and not with a traceback out of the middle of a print.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer


def prepare() -> None:
    """Give standard output and error something that prints anything. Once, before the first line is printed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as we do
        elif isinstance(stream, io.TextIOWrapper):
            # What containers print need not exist in the encoding of this terminal.
            stream.reconfigure(errors="backslashreplace")
            if isinstance(stream.buffer, io.RawIOBase):
                stream.flush()
                setattr(sys, name, _unbuffered(stream))


def _unbuffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """The same stream, which Python has made without a buffer (`PYTHONUNBUFFERED`), with whole writes."""
    raw = _WholeWrites(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, write_through=True)


def discard_unwritable() -> None:
    """Throw away what standard output can't take: at its exit the interpreter would fail again, and say so itself."""
    try:
        sys.stdout.flush()
    except OSError:
        _lead_nowhere(sys.stdout)


def _lead_nowhere(stream: TextIO) -> None:
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _WholeWrites(io.FileIO):
    """A file that is written to the end of what is given, as a buffer does.

    A signal, as of Ctrl-C, ends a write before all is written. Without a buffer Python forgets the rest.
    """

    def write(self, data: Buffer, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            written = super().write(left)
            if written is None:  # somebody has set it not to block, and it takes no more now
                select.select([], [self], [])
            left = left[written or 0 :]
        return size


class FragileStream(io.TextIOBase):
    """A stream that may break. Never raises for it: it says so once, and what follows is thrown away.

    Not thread-safe, as the listener of a run isn't.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on_lost: Callable[[], None] | None = None
        self.error: OSError | None = None
        """Why the stream was lost."""

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call this when the stream is lost; at once if it is already."""
        self._on_lost = callback
        if self.error is not None:
            callback()

    @property
    def encoding(self) -> str:  # type: ignore[override] # read-only suffices
        """The encoding of the stream."""
        return self._stream.encoding

    def fileno(self) -> int:
        """The stream's file descriptor."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """Always, as far as the writer can tell."""
        return True

    def write(self, text: str) -> int:
        """Write, or not."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush, or not."""
        self._attempt(self._stream.flush)

    def close(self) -> None:
        """Nothing: the stream is its owner's, who may have closed it when Python finalizes this object."""

    def _attempt(self, act: Callable[[], object]) -> None:
        if self.error is None:
            try:
                act()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.error = error
        # What is still buffered would fail again at the exit of the interpreter, which then says so itself.
        _lead_nowhere(self._stream)
        if self._on_lost is not None:
            self._on_lost()
