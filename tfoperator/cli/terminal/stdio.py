"""Standard output and error under all conditions: missing, full, in another encoding, or closed while a job runs.

A program that is piped into `head`, whose disk fills up or whose terminal is closed must end like one asked
to, with its jobs stopped in order, and not with a traceback from a print.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer


def prepare() -> None:
    """Make standard output and error accept any text. Call once, before the first line is printed.

    Text that standard error can't take is lost without an error: an exit code is about the command.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            # Containers may print characters outside this terminal's encoding.
            stream.reconfigure(errors="backslashreplace")
            if isinstance(stream.buffer, io.RawIOBase):
                stream.flush()
                setattr(sys, name, _unbuffered(stream))
    if not isinstance(sys.stderr, FragileStream):
        setattr(sys, "stderr", FragileStream(sys.stderr))  # noqa: B010 - to mypy it is no TextIO


def _unbuffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return an unbuffered stream (`PYTHONUNBUFFERED`) with complete writes."""
    raw = _WholeWrites(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, write_through=True)


def discard_unwritable() -> None:
    """Discard unwritable standard output: at its exit the interpreter would fail again, and report it."""
    try:
        sys.stdout.flush()
    except OSError:
        _lead_nowhere(sys.stdout)


def _lead_nowhere(stream: TextIO) -> None:
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _WholeWrites(io.FileIO):
    """A file whose writes are complete, like a buffer's.

    A signal such as Ctrl-C can interrupt a write. Without a buffer Python drops the rest.
    """

    def write(self, data: Buffer, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            written = super().write(left)
            if written is None:  # it was set non-blocking, and accepts no more now
                select.select([], [self], [])
            left = left[written or 0 :]
        return size


class FragileStream:
    """A stream that may break. Never raises for it: it reports it once, and discards further output.

    Attributes that it does not define are the stream's. Not thread-safe, like the listener of a run.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on_lost: Callable[[], None] | None = None
        self.error: OSError | None = None
        """Why the stream was lost."""

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Set the callback for the loss of the stream; call it at once if that is lost already."""
        self._on_lost = callback
        if self.error is not None:
            callback()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, unless the stream is lost."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush, unless the stream is lost."""
        self._attempt(self._stream.flush)

    def _attempt(self, act: Callable[[], object]) -> None:
        if self.error is None:
            try:
                act()
            except OSError as error:
                self.error = error
                # Buffered text would fail again at the exit of the interpreter, which would report it.
                _lead_nowhere(self._stream)
                if self._on_lost is not None:
                    self._on_lost()
