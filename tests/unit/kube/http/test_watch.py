import json
import threading
import time
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.informers.support import ImpatientClock
from tests.unit.kube.conftest import Certificates, MakeClient, Serve
from tests.unit.kube.server import Exchange, chunks, lists_and_watches, stalls
from tfoperator.kube import WatchOptions
from tfoperator.kube.client import WatchPace
from tfoperator.kube.http import verbs
from tfoperator.kube.http import watch as kube_watch
from tfoperator.kube.http.watch import INITIAL_EVENTS_END, HttpWatch, LineSplitter
from tfoperator.kube.protocol import errors
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import WatchEvent, WatchEventType, decoder
from tfoperator.kube.views.objects import PartialObject

DECODE = decoder(PartialObject)


def event(kind: str, name: str = "a", version: str = "1", **meta: Any) -> dict[str, Any]:
    return {"type": kind, "object": {"kind": "Pod", "metadata": {"name": name, "resourceVersion": version, **meta}}}


@pytest.mark.parametrize(
    ("annotations", "end"),
    [({INITIAL_EVENTS_END: "true"}, True), ({INITIAL_EVENTS_END: "false"}, False), ({}, False), (None, False)],
)
def test_a_bookmark_carries_the_version_and_whether_the_initial_events_are_over(
    client_for: MakeClient, annotations: dict[str, str], end: bool
) -> None:
    (bookmark,) = client_for(chunks(event("BOOKMARK", version="77", annotations=annotations))).watch(PODS, "", DECODE)
    assert bookmark == WatchEvent(WatchEventType.BOOKMARK, None, "77", end)


@pytest.mark.parametrize(
    ("code", "error"), [(410, errors.GoneError), (429, errors.TooManyRequestsError), (0, errors.ApiError)]
)
def test_an_error_event_raises_its_status_after_what_came_before(
    serve: Serve, client_for: MakeClient, code: int, error: type[errors.ApiError]
) -> None:
    status = {"kind": "Status", "code": code, "reason": "Expired", "message": "too old resource version: 1 (5)"}
    server = serve(chunks(event("ADDED"), {"type": "ERROR", "object": status}, event("ADDED")))
    seen = []
    with pytest.raises(error, match=r"watch pods.*too old resource version") as caught:
        seen.extend(client_for(server.url).watch(PODS, "", DECODE).batches())
    assert caught.value.reason == "Expired"


@pytest.mark.parametrize(
    "line",
    [
        b"<html>gateway</html>\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":[]}\n',
        b'{"type":"BOOKMARK","object":{}}\n',
        b'{"type":"EXPLODED","object":{}}\n',
        b"\xff\xfe\n",
        b'{"type":"ADDED","object":}\n',
        b'{"type":"ADDED","object":{"metadata":1}}\n',
        b'{"type":"ADDED","object":{}\n',
    ],
)
def test_a_line_that_makes_no_sense_ends_the_watch_with_an_error(client_for: MakeClient, line: bytes) -> None:
    watch = iter(client_for(chunks(event("ADDED"), line)).watch(PODS, "ns", DECODE))
    assert next(watch).type is WatchEventType.ADDED
    with pytest.raises(errors.MalformedResponse, match="watch pods in ns: an event"):
        next(watch)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(lambda e: e.hang_up(), id="eof-between-chunks"),
        pytest.param(lambda e: e.reset(), id="reset"),
        pytest.param(lambda e: (e.send(b'40\r\n{"type":'), e.hang_up()), id="in-a-chunk"),
        pytest.param(lambda e: (e.send(b"4"), e.hang_up()), id="in-a-chunk-size"),
        pytest.param(lambda e: (e.chunk(b'{"type":"ADD'), e.end_chunks()), id="in-an-event"),
    ],
)
def test_a_watch_that_is_cut_off_has_no_clean_end(client_for: MakeClient, ending: Callable[[Exchange], None]) -> None:
    got = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.begin_chunks()
        exchange.chunk(event("ADDED"))
        assert got.wait(60)
        ending(exchange)

    watch = iter(client_for(handler).watch(PODS, "", DECODE))
    assert next(watch).type is WatchEventType.ADDED
    got.set()
    with pytest.raises(errors.TransportError) as caught:
        next(watch)
    assert not isinstance(caught.value, errors.DeadlineExceeded)


def test_silence_beyond_the_read_deadline_is_an_error_but_without_bookmarks_not_before_the_watch_is_due(
    client_for: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_for(stalls(event("ADDED")), watches=WatchPace(0.5))
    watch = iter(client.watch(PODS, "", DECODE))
    next(watch)
    with pytest.raises(errors.SilentWatch, match="no event and no bookmark"):
        next(watch)
    monkeypatch.setattr(verbs, "WATCH_GRACE", 0.5)
    client = client_for(stalls(event("ADDED")), watches=WatchPace(0.01))
    watch = iter(client.watch(PODS, "", DECODE, WatchOptions(allow_watch_bookmarks=False, timeout_seconds=0)))
    next(watch)
    began = time.monotonic()
    with pytest.raises(errors.DeadlineExceeded):
        next(watch)
    assert time.monotonic() - began > 0.1


def test_a_watch_that_the_server_does_not_end_is_ended(client_for: MakeClient) -> None:
    clock = FakeClock()
    more = threading.Semaphore(1)

    def handler(exchange: Exchange) -> None:
        exchange.begin_chunks()
        while more.acquire(timeout=60):
            exchange.chunk(event("BOOKMARK"))

    watch = iter(client_for(handler, clock=clock).watch(PODS, "", DECODE, WatchOptions(timeout_seconds=300)))
    next(watch)
    clock.advance(329)
    more.release()
    next(watch)
    clock.advance(1)
    with pytest.raises(errors.DeadlineExceeded, match="did not end the watch"):
        next(watch)
    more.release(3)  # sending to nobody ends the handler


class Pieces:
    """A stream that answers each read with the next piece."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = iter(pieces)
        self.gathers: list[int] = []

    def read(self, timeout: float | None, gather: int = 0) -> bytes:
        self.gathers.append(gather)
        return next(self._pieces, b"")

    def close(self) -> None:
        pass


def line(name: str) -> bytes:
    return json.dumps(event("ADDED", name=name)).encode() + b"\n"


def watch_of(*pieces: bytes, **more: Any) -> HttpWatch[PartialObject]:
    options = {"what": "w", "read_deadline": 90, "total_deadline": 330, "clock": FakeClock(), **more}
    return HttpWatch(Pieces(*pieces), DECODE, **options)


def names(events: Iterable[WatchEvent[PartialObject]]) -> list[str]:
    return [event.object.metadata.name for event in events if event.object]


def busy_watch(*pieces: bytes, **more: bool) -> tuple[HttpWatch[PartialObject], ImpatientClock]:
    """Return a watch with a batch period, which is over when it begins, and the clock that records its waits."""
    clock = ImpatientClock()
    clock.pass_time(0.1)()
    return watch_of(*pieces, clock=clock, batch_period=0.05, **more), clock


def waits(clock: ImpatientClock) -> list[float]:
    return [round(seconds, 3) for seconds in clock.waits if seconds > 0]


def test_a_line_without_end_is_not_read_for_ever_and_none_is_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kube_watch, "MAX_LINE_BYTES", 100)
    with (
        watch_of(*[b"x" * 10] * 20) as watch,
        pytest.raises(errors.MalformedResponse, match="longer than the limit of 100 bytes"),
    ):
        list(watch)
    assert LineSplitter(5).feed(b"12345\n1") == [b"12345"]
    with pytest.raises(errors.MalformedResponse):
        LineSplitter(5).feed(b"123456\n")
    splitter = LineSplitter(5)
    splitter.feed(b"123")
    with pytest.raises(errors.MalformedResponse):
        splitter.feed(b"456")


def test_what_one_read_brings_comes_together_but_for_a_flood() -> None:
    flood = b"".join(line(f"pod-{number}") for number in range(250))
    with watch_of(line("a") + line("b"), line("c")[:9], line("c")[9:], flood) as watch:
        batches = list(watch.batches())
    assert [len(batch) for batch in batches] == [2, 1, 100, 100, 50]
    assert names(chain(*batches)) == ["a", "b", "c", *(f"pod-{number}" for number in range(250))]


@given(st.lists(st.sampled_from([line("a"), b"nonsense\n", b"\n"]), max_size=7), st.integers(1, 100))
def test_what_came_before_a_line_that_makes_no_sense_is_not_lost(lines: list[bytes], size: int) -> None:
    data = b"".join(lines)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    good = lines.index(b"nonsense\n") if b"nonsense\n" in lines else len(lines)
    seen: list[WatchEvent[PartialObject]] = []
    broken = False
    try:
        for batch in watch_of(*pieces).batches():
            seen.extend(batch)
    except errors.MalformedResponse:
        broken = True
    assert broken == (good < len(lines))
    assert len(seen) == lines[:good].count(line("a"))


@pytest.mark.parametrize(("data", "size"), [(line("a") * 250, 100), (line("a") + b"nonsense\n", 1)])
def test_a_watch_that_is_closed_amid_a_flood_or_before_nonsense_ends_with_the_batch(data: bytes, size: int) -> None:
    watch, sizes = watch_of(data), []
    for batch in watch.batches():
        sizes.append(len(batch))
        watch.close()
    assert sizes == [size]


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}',
        '{"type":"MODIFIED","object":{"metadata":{"name":"a"}}} ',
        '{"type":"MODIFIED","object":{"metadata":{"name":"a"}},"more":{"metadata":{}}}',
        '{"type":"MODIFIED","object":{"metadata":{"name":"a"}},"more":{"type":"DELETED"}}',
        '{"object":{"metadata":{"name":"a"}},"type":"MODIFIED"}',
        '{ "type": "MODIFIED", "object": {"metadata": {"name": "a"}} }',
        '{"type":"MODIFIED","object":{"spec":' + '{"a":' * 20_000 + "1" + "}" * 20_000 + ',"metadata":{"name":"a"}}}',
    ],
    ids=["as API servers write it", "a space", "more", "more of the kind", "turned round", "spaced out", "deep"],
)
def test_an_event_is_the_same_however_its_line_is_written(text: str) -> None:
    with watch_of(text.encode() + b"\n") as watch:
        [received] = watch
    assert received.type is WatchEventType.MODIFIED
    assert received.object.metadata.name == "a"


def test_a_busy_watch_waits_before_it_reads_all_there_is_but_never_for_the_rest_of_a_line_or_amid_a_flood() -> None:
    flood = line("c") * (1 + (1 << 20) // len(line("c")))
    watch, clock = busy_watch(line("a"), line("b")[:10], line("b")[10:], flood, line("d"))
    assert list(dict.fromkeys(names(watch))) == ["a", "b", "c", "d"]
    assert waits(clock) == [0.05, 0.05, 0.05], "before the beginning of b, before the flood, and before the end"
    assert watch._stream.gathers == [1 << 20] * 6


def test_news_are_gathered_in_a_batch_period_and_what_is_there_already_is_read_as_it_comes() -> None:
    end = json.dumps(event("BOOKMARK", annotations={INITIAL_EVENTS_END: "true"})).encode() + b"\n"
    watch, clock = busy_watch(line("a"), line("b"), line("c") + end, line("d"), line("e"), begins_with_state=True)
    assert names(watch) == ["a", "b", "c", "d", "e"]
    assert waits(clock) == [0.05, 0.05], "before e, and the end: the end of the state was known only after its read"
    watch = watch_of(line("a"), line("b"), clock=(clock := ImpatientClock()))
    assert names(watch) == ["a", "b"]
    assert (clock.waits, watch._stream.gathers) == ([], [0, 0, 0])


def test_with_a_batch_period_events_that_come_soon_after_others_wait_for_more(client_for: MakeClient) -> None:
    clock = FakeClock()
    sent, go_on = threading.Event(), threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.begin_chunks()
        exchange.chunk(event("ADDED", name="at-once"))
        assert go_on.wait(20)
        for name in ("b", "c", "d"):
            exchange.chunk(event("ADDED", name=name))
        sent.set()
        exchange.wait_until_client_leaves()
        exchange.hang_up()

    client = client_for(handler, clock=clock, watches=WatchPace(batch_period=0.05))
    seen: list[str] = []
    with client.watch(PODS, "", DECODE) as watch:
        reading = InThread(lambda: seen.extend(name for event in watch for name in names([event])))
        eventually(lambda: seen == ["at-once"])
        go_on.set()
        assert sent.wait(20)
        clock.wait_for_deadline(0.05)
        assert seen == ["at-once"]

        def all_seen() -> bool:
            clock.advance(0.05)
            return seen == ["at-once", "b", "c", "d"]

        eventually(all_seen)
    reading.result()  # closing wakes who waits for more


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("closer", ["watch", "client"])
def test_close_from_another_thread_wakes_the_reader_and_frees_the_socket(
    serve: Serve, client_for: MakeClient, certificates: Certificates, tls: bool, closer: str
) -> None:
    left = threading.Event()
    server = serve(stalls(event("ADDED"), left=left), certificates.server_context() if tls else None)
    client = client_for(server.url, {"tls": certificates.trust})
    watch = client.watch(PODS, "", DECODE)
    seen: list[WatchEvent[PartialObject]] = []
    reading = InThread(lambda: [seen.append(e) for e in watch])
    eventually(lambda: seen and watch._stream._reading)
    (watch if closer == "watch" else client).close()
    reading.result()
    assert [e.type for e in seen] == [WatchEventType.ADDED]
    assert watch._stream._sock.fileno() == -1
    assert left.wait(60)


def test_a_refused_watch_raises_what_the_server_says(client_for: MakeClient) -> None:
    with pytest.raises(errors.ForbiddenError, match="watch pods in ns: pods is forbidden"):
        client_for(lambda exchange: exchange.status(403, "Forbidden", "pods is forbidden")).watch(PODS, "ns", DECODE)


def test_a_watch_has_a_connection_of_its_own_and_closes_it(serve: Serve, client_for: MakeClient) -> None:
    server = serve(lists_and_watches(watch=stalls(event("ADDED"))))
    client = client_for(server.url)
    client.list(PODS, "", DECODE)
    with client.watch(PODS, "", DECODE) as watch:
        for _ in watch:
            client.list(PODS, "", DECODE)
            break
    assert [r.connection for r in server.requests] == [1, 2, 1]
    assert watch._stream._sock.fileno() == -1
