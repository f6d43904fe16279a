"""A watch: events from a streaming response, one JSON document per line.

Without deadlines, a watch hangs for ever when a connection breaks unnoticed. So a watch has two deadlines: for the next
event or bookmark (API servers send a bookmark about once a minute), and for the whole watch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.kube.http.nesting import decode_what_can_be_followed
from tfoperator.kube.http.stream import ByteStream
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
"""etcd takes 1.5 MB per object by default, an API server 3 MB: an event is always smaller than this."""

_BATCH_BYTES = 1 << 20
"""Approximate bytes per read: some hundred events. (A longer event arrives in pieces.)"""

_BATCH_EVENTS = 100
"""Events of one read that are decoded at a time: the reader gets the first before the last is decoded."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Line(msgspec.Struct):
    """One line of a watch. Raw still refers to the line: decode a copy, or the decoded view may keep the line alive."""

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
"""The beginning of a line, byte for byte as API servers write it: it shows where the object is, without parsing all."""


class LineSplitter:
    """Cuts a stream of bytes into lines, in linear time."""

    def __init__(self, limit: int) -> None:
        """Lines longer than `limit` bytes raise MalformedResponse."""
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, without line ends; empty lines are left out."""
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
        """The number of bytes of an unfinished line."""
        return self._size


class HttpWatch(Generic[T]):
    """A `tfoperator.kube.protocol.verbs.WatchStream` over HTTP; also a context manager.

    Iteration raises SilentWatch after `read_deadline` seconds (None: no such limit) without an event or a bookmark;
    DeadlineExceeded when the watch outlives `total_deadline` seconds; MalformedResponse for a line that can't be
    decoded; other TransportErrors when the connection breaks; the ApiError that an ERROR event holds. Each closes the
    watch.
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
        """With a `batch_period` (seconds) it reads about once per period, and then all bytes received.

        With `begins_with_state` the periods start after the bookmark that ends the initial events, which are read at
        once.
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
        """End the watch and its connection at once, waking a reader. Idempotent, thread-safe, does not block."""
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
        """Yield the same events in batches: the events of one read, at most a hundred in a batch."""
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
        """Decode the lines, all at once. If a line is invalid, yield the events before it, and then raise the error."""
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
