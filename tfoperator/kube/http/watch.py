"""Reads the events of a watch from a streaming response. Each line is a JSON document.

If a connection breaks without a TCP reset, the client gets no error and would wait without end. So a watch has two
deadlines: one until the next event or bookmark (API servers send a bookmark about once a minute), and one for the whole
watch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.http.nesting import decode_what_can_be_followed
from tfoperator.kube.protocol.errors import (
    UNDECODABLE,
    ApiError,
    DeadlineExceeded,
    KubeError,
    MalformedResponse,
    SilentWatch,
    Status,
    TransportError,
    error_from_status,
)
from tfoperator.kube.protocol.verbs import Decoder, WatchEvent, WatchEventType

T = TypeVar("T")

MAX_LINE_BYTES = 16 << 20
"""By default, etcd accepts 1.5 MB per object, and an API server accepts 3 MB. So an event is always smaller than this
limit.
"""

_BATCH_BYTES = 1 << 20
"""The approximate number of bytes per read. This is enough for some hundred events. (A longer event arrives
in pieces.)
"""

_BATCH_EVENTS = 100
"""The number of events from one read that are decoded together: the caller gets the first event before the last event
is decoded.
"""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Line(msgspec.Struct):
    """One line of a watch.

    `object` still refers to the bytes of the line. Decode a copy of these bytes: otherwise the decoded view may keep
    the whole line in memory.
    """

    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_decode_status = msgspec.json.Decoder(Status).decode

_OBJECT_EVENTS = {kind.value: kind for kind in (WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED)}

_HEADS = {b'{"type":"%b","object":' % name.encode(): kind for name, kind in _OBJECT_EVENTS.items()}
"""The beginnings of lines, for example `{"type":"ADDED","object":`, with exactly the bytes that API servers write. The
bytes of the object follow directly, so they can be decoded without parsing the whole line first.
"""


class LineSplitter:
    """Splits a stream of bytes into lines, in linear time."""

    def __init__(self, limit: int) -> None:
        """Lines longer than `limit` bytes raise MalformedResponse."""
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete after `data`, without line ends. Empty lines are left out."""
        first, *rest = data.split(b"\n")
        lines = []
        if rest:
            lines.append(b"".join((*self._parts, first)))
            lines += rest[:-1]
            self._parts, self._size = [], 0
            first = rest[-1]
        if first:
            self._parts.append(first)
            self._size += len(first)
        if self._size > self._limit or max(map(len, lines), default=0) > self._limit:
            raise MalformedResponse(f"a line of the watch is longer than the limit of {self._limit} bytes")
        return [line for line in lines if line]

    @property
    def pending(self) -> int:
        """The number of bytes in the unfinished line."""
        return self._size


class HttpWatch(Generic[T]):
    """A `tfoperator.kube.protocol.verbs.WatchStream` over HTTP; also a context manager.

    Iteration raises SilentWatch after `read_deadline` seconds (None: no limit) without an event or a bookmark. It
    raises DeadlineExceeded if the watch takes longer than `total_deadline` seconds, MalformedResponse for a line that
    can't be decoded, and other TransportErrors if the connection breaks. For an ERROR event it raises the ApiError in
    this event. Each of these errors closes the watch.
    """

    def __init__(
        self,
        stream: ByteStream,
        decode: Decoder[T],
        *,
        what: str,
        read_deadline: float | None,
        total_deadline: float,
        clock: Clock,
        batch_period: float = 0.0,
        begins_with_state: bool = False,
    ) -> None:
        """With a `batch_period` (seconds) the watch reads about once per period.

        Each read returns all bytes that have arrived. `begins_with_state` means that the server first sends the
        existing objects as ADDED events. The watch reads these events without pauses, and the periods start after the
        bookmark that follows these events.
        """
        self._stream = stream
        self._decode = decode
        self._what = what
        self._read_deadline = read_deadline
        self._clock = clock
        began = clock.monotonic()
        self._ends_at = began + total_deadline
        self._lines = LineSplitter(MAX_LINE_BYTES)
        self._batch_period = batch_period
        self._is_initial = begins_with_state
        self._next_read = began
        self._stop = StopSignal()

    def __enter__(self) -> HttpWatch[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the watch and its connection at once, and wake the thread that reads it.

        Idempotent, thread-safe, does not block.
        """
        self._stop.set()
        self._stream.close()

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """Yield events in order, until the server ends the watch or `close()` is called."""
        for batch in self.batches():
            for event in batch:
                if self._stop.is_set():
                    return
                yield event

    def batches(self) -> Iterator[Sequence[WatchEvent[T]]]:
        """Yield the events in batches, as an alternative to `__iter__`.

        A batch contains events of one read, at most a hundred.
        """
        try:
            while data := self._read():
                lines = self._lines.feed(data)
                for begin in range(0, len(lines), _BATCH_EVENTS):
                    if self._stop.is_set():
                        return
                    yield from self._decoded(lines[begin : begin + _BATCH_EVENTS])
                del data, lines  # up to a megabyte, while the next read waits
            if self._lines.pending and not self._stop.is_set():
                raise TransportError("the server closed the connection in the middle of an event")
        except ApiError:
            if not self._stop.is_set():
                raise
        except KubeError as error:
            if not self._stop.is_set():
                raise type(error)(f"{self._what}: {error}") from error
        finally:
            self.close()

    def _read(self) -> bytes:
        if self._batch_period and not self._lines.pending:
            # Waking for each event costs more than handling it.
            self._stop.wait(self._clock, self._next_read - self._clock.monotonic())
        left = self._ends_at - self._clock.monotonic()
        if left <= 0:
            raise DeadlineExceeded("the server did not end the watch after the time that the request had set")
        timeout = left if self._read_deadline is None else min(left, self._read_deadline)
        try:
            data = self._stream.read(timeout, _BATCH_BYTES if self._batch_period else 0)
        except DeadlineExceeded as error:
            raise SilentWatch(f"no event and no bookmark came for {self._read_deadline or left:.0f} s") from error
        if not self._is_initial and len(data) < _BATCH_BYTES:
            self._next_read = self._clock.monotonic() + self._batch_period
        return data

    def _decoded(self, lines: Sequence[bytes]) -> Iterator[Sequence[WatchEvent[T]]]:
        """Decode all the lines together.

        If a line is invalid, yield the events before this line, and then raise the error.
        """
        events: list[WatchEvent[T]] = []
        try:
            for line in lines:
                events.append(self._event(line))
        except Exception:
            if events:
                yield events
            raise
        yield events

    def _event(self, line: bytes) -> WatchEvent[T]:
        head = line[: line.find(b"{", 1)]
        if (kind := _HEADS.get(head)) and line.endswith(b"}"):
            try:
                return WatchEvent(kind, self._decode(line[len(head) : -1]))
            except UNDECODABLE:
                pass  # bytes may follow the object; if not, the general decoder names the error
        try:
            raw = decode_what_can_be_followed(_decode_line, line)
            if kind := _OBJECT_EVENTS.get(raw.type):
                return WatchEvent(kind, decode_what_can_be_followed(self._decode, bytes(raw.object)))
            if raw.type == WatchEventType.BOOKMARK:
                meta = _decode_bookmark(raw.object).metadata
                ends = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                self._is_initial = self._is_initial and not ends
                return WatchEvent(WatchEventType.BOOKMARK, None, meta.resource_version, ends)
            if raw.type == "ERROR":
                raise error_from_status(_decode_status(raw.object), self._what)
        except UNDECODABLE as error:
            raise MalformedResponse(f"an event can't be decoded: {error}") from error
        raise MalformedResponse(f"an event has the unknown type {raw.type[:40]!r}")
