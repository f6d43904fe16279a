"""Handles problems of standard output and error: closed, on a full disk, or in an encoding other than UTF-8.

For example, the output is piped into `head`, which exits, or the terminal is closed. Then the program must end as after
Ctrl-C: it stops its jobs gracefully, and prints no traceback.
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

    If standard error can't be written, its text is dropped without an error, because the exit code must show the result
    of the command.
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
    """Return the stream, unbuffered (for `PYTHONUNBUFFERED`). Each `write` writes all of its bytes."""
    raw = _WholeWrites(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors=stream.errors, write_through=True)


def discard_unwritable() -> None:
    """Discard the rest of standard output if it can't be written.

    Without this, the interpreter would try to write the rest at exit, fail again, and report this failure.
    """
    try:
        sys.stdout.flush()
    except OSError:
        _lead_nowhere(sys.stdout)


def _lead_nowhere(stream: TextIO) -> None:
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _WholeWrites(io.FileIO):
    """An unbuffered file whose `write` returns only after it has written all bytes.

    A signal such as SIGINT can interrupt a write system call. Python's FileIO then drops the rest of the bytes; this
    class writes the rest in further system calls.
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
    """A stream that raises no error if it can't be written any more, for example because a pipe is closed.

    After the first failed write, the stream calls the callback of `when_lost` once, and discards all further output.
    Attributes that this class does not define come from the wrapped stream. Not thread-safe.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on_lost: Callable[[], None] | None = None
        self.error: OSError | None = None
        """The error of the first failed write, or None."""

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Set the callback that is called when the stream can't be written any more.

        If the stream is already lost, call the callback at once.
        """
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
