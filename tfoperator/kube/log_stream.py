"""The log of a pod's container, as bytes that arrive while it is written."""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.kube.http.stream import ByteStream


class LogStream:
    """The bytes of a log, in pieces of any size: iterate in one thread, `close()` from any; also a context manager.

    Iteration ends with the log or when closed, and raises TransportError when the connection breaks.
    """

    def __init__(self, stream: ByteStream, timeout: float | None) -> None:
        self._stream = stream
        self._timeout = timeout

    def __enter__(self) -> LogStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces as they arrive."""
        try:
            while data := self._stream.read(self._timeout):
                yield data
        finally:
            self.close()

    def close(self) -> None:
        """End it at once. Idempotent, thread-safe, does not block."""
        self._stream.close()
