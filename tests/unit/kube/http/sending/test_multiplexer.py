import contextlib
import threading
from datetime import timedelta

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.kube.conftest import Certificates
from tests.unit.kube.http.conftest import Creating
from tests.unit.kube.http.creations import chain, created, name_of, warm
from tests.unit.kube.http.sending.test_session import Recorder
from tests.unit.kube.server import Exchange, Handler, chunks, drips, silent
from tfoperator.kube.client import RateLimit
from tfoperator.kube.config.credentials import IssuedCredential, IssuedCredentials
from tfoperator.kube.http.connections.pool import MAX_IDLE_CONNECTIONS
from tfoperator.kube.http.connections.wire import readable
from tfoperator.kube.http.sending.requests import Call
from tfoperator.kube.protocol import errors
from tfoperator.kube.protocol.resources import PODS, SERVICES
from tfoperator.kube.protocol.verbs import Creation
from tfoperator.kube.views.objects import decode_nothing


def test_the_next_of_a_chain_is_sent_when_the_one_before_was_answered(creating: Creating) -> None:
    answered: list[str] = []

    def handler(exchange: Exchange) -> None:
        name = name_of(exchange)
        first, _, number = name.partition("-")
        assert all(f"{first}-{earlier}" in answered for earlier in range(int(number)))
        answered.append(name)
        created(exchange)

    server, creator = creating(handler)
    chains = [chain(*(f"{first}-{number}" for number in range(3))) for first in "abcdefgh"]
    assert creator.create_chains(chains) == [[None] * 3] * 8
    assert sorted(map(name_of, server.requests)) == sorted(answered)
    assert server.connections <= 4


def test_no_more_than_so_many_are_under_way_however_many_callers_share_it(creating: Creating) -> None:
    lock = threading.Lock()
    under_way, most, full = 0, 0, threading.Event()

    def handler(exchange: Exchange) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            if under_way == 3:
                full.set()
        assert full.wait(60)
        with lock:
            under_way -= 1
        created(exchange)

    server, creator = creating(handler, parallelism=3)
    chains = [[chain(f"{who}-{number}") for number in range(12)] for who in range(5)]
    callers = [InThread(lambda mine=mine: creator.create_chains(mine)) for mine in chains]
    assert [caller.result() for caller in callers] == [[[None]] * 12] * 5
    assert len({name_of(request) for request in server.requests}) == 60
    assert most == 3


def test_it_speaks_tls_and_large_bodies_go_both_ways(creating: Creating, certificates: Certificates) -> None:
    """TLS takes more from the connection than it gives at a time, and `poll` does not report the rest."""
    tls = {"config": {"tls": certificates.trust}, "tls": certificates.server_context()}
    server, creator = creating(chunks(b"x" * 1_000_000), **tls)
    text = "x" * 3_000_000
    for _ in range(2):
        creation = Creation(SERVICES, "ns", {"metadata": {"name": "a"}, "x": text})
        assert creator.create_chains([[creation, creation]] * 4) == [[None, None]] * 4
    assert all(request.json["x"] == text for request in server.requests)


def test_interim_answers_without_end_fail_their_call(creating: Creating) -> None:
    def handler(exchange: Exchange) -> None:
        with contextlib.suppress(OSError):
            while not exchange.server.stopping.is_set():
                exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 400)
        exchange.hang_up()

    _, creator = creating(handler, warmed=True)
    flooded, other = InThread(lambda: creator.create_chains([chain("a"), chain("warm-other")])).result()
    assert [type(result) for result in flooded] == [errors.MalformedResponse]
    assert other == [None]


def test_a_connection_that_the_server_gives_up_is_not_used_again_nor_one_to_a_server_that_listens_no_more(
    creating: Creating,
) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.respond(201, b"{}", Connection="close")
        exchange.hang_up()

    server, creator = creating(handler)
    for _ in range(3):
        assert creator.create_chains([chain("a")]) == [[None]]
    assert server.connections == 3
    server.stop()
    results = creator.create_chains([chain("a", "b"), chain("c")])
    assert [type(result) for (result,) in results] == [errors.ConnectionRefused] * 2


def sending(sent: bytes) -> Handler:
    def handler(exchange: Exchange) -> None:
        exchange.send(sent)
        exchange.hang_up()

    return handler


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Exchange.reset, errors.TransportError),
        (sending(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{}"), errors.TransportError),
        (sending(b"nonsense"), errors.MalformedResponse),
        (sending(b"HTTP/1.1 201 Created\r\nContent-Length: 999999999\r\n\r\n"), errors.AnswerTooLarge),
        (lambda exchange: exchange.status(429, "No", "no"), errors.TooManyRequestsError),  # without a Retry-After
        # The server may have acted, or not.
        (lambda exchange: exchange.status(503, "No", "no", headers={"Retry_After": "0"}), errors.ServerError),
    ],
    ids=["lost", "broken off", "nonsense", "too large", "429", "503"],
)
def test_a_failed_create_is_not_repeated(answer: Handler, expected: type[errors.KubeError], creating: Creating) -> None:
    server, creator = creating(answer, warmed=True)
    ((error,),) = creator.create_chains([chain("a", "b")])
    assert type(error) is expected
    assert str(error).startswith("create pods ns/a: ")
    assert [name_of(request) for request in server.requests][4:] == ["a"]
    assert creator.create_chains([chain("warm-again")]) == [[None]]


@pytest.mark.parametrize("never_ends", [silent, drips(b"HTTP/1.1 201 Created\r\nX: ")], ids=["silent", "dripping"])
def test_a_server_that_never_comes_to_an_end_is_given_up(creating: Creating, never_ends: Handler) -> None:
    _, creator = creating(never_ends, request_timeout=1, warmed=True)
    results = creator.create_chains([chain("a"), chain("warm-other")])
    assert isinstance(results[0][0], errors.DeadlineExceeded)
    assert results[1] == [None]


@pytest.mark.parametrize(("tokens", "sent"), [(["a", "a", "b"], 1), (["a", "b", "c"], 2)])
def test_a_401_is_repeated_once_with_newer_credentials_alone(tokens: list[str], sent: int, creating: Creating) -> None:
    issued = iter(tokens)
    credentials = IssuedCredentials(lambda: IssuedCredential(authorization=f"Bearer {next(issued)}"))
    server, creator = creating(
        lambda exchange: exchange.status(401, "Unauthorized", "who are you?"), {"credentials": credentials}, warmed=True
    )
    ((error,),) = creator.create_chains([chain("a", "b")])
    assert isinstance(error, errors.UnauthorizedError)
    assert [request.headers["authorization"] for request in server.requests][4:] == [
        f"Bearer {token}" for token in tokens[:sent]
    ]


def test_with_newer_credentials_a_server_that_asks_for_patience_gets_it(creating: Creating) -> None:
    tokens = iter(["Bearer old", "Bearer new"])
    credentials = IssuedCredentials(lambda: IssuedCredential(authorization=next(tokens)))
    answers = iter([401, 429, 201])

    def handler(exchange: Exchange) -> None:
        exchange.status(next(answers), "Any", "any", headers={"Retry_After": "0"})

    recorder = Recorder()
    server, creator = creating(handler, {"credentials": credentials}, observer=recorder, warmed=True)
    assert creator.create_chains([chain("a")]) == [[None]]
    assert [name_of(request) for request in server.requests][4:] == ["a"] * 3
    assert recorder.retries == [("POST", "429")]
    assert [code for _, _, code in recorder.requests][4:] == ["401", "429", "201"]


def test_nobody_waits_for_new_credentials_whose_old_ones_still_hold(creating: Creating) -> None:
    clock, asked, answered = FakeClock(), threading.Event(), threading.Event()

    def issue() -> IssuedCredential:
        if clock.monotonic():
            asked.set()
            assert answered.wait(60)
        return IssuedCredential("Bearer t", expires=clock.now() + timedelta(seconds=1000))

    credentials = IssuedCredentials(issue, clock=clock)
    _, creator = creating(created, {"credentials": credentials})
    warm(creator)
    clock.advance(950)
    first = InThread(lambda: creator.create_chains([chain("a")]))
    assert asked.wait(60)
    second = InThread(lambda: creator.create_chains([chain("b", "c"), chain("d")]))
    try:
        assert second.result(10) == [[None, None], [None]]
        assert first.running
    finally:
        answered.set()
    assert first.result() == [[None]]


def test_as_many_connections_are_kept_as_requests_may_be_under_way(creating: Creating) -> None:
    together = threading.Barrier(MAX_IDLE_CONNECTIONS + 6)

    def handler(exchange: Exchange) -> None:
        together.wait(60)
        created(exchange)

    server, creator = creating(handler, parallelism=together.parties)
    for _ in range(2):
        chains = [chain(f"a{number}") for number in range(together.parties)]
        assert creator.create_chains(chains) == [[None]] * together.parties
    assert server.connections == together.parties


def test_a_request_that_cannot_be_written_takes_no_connection_and_nothing_is_nothing(creating: Creating) -> None:
    _, creator = creating(created, warmed=True)
    assert creator.create_chains([]) == []
    with pytest.raises(ValueError, match="no calls"):
        creator.create_chains([[]])
    ((error,),) = creator.multiplexer.run([[Call("POST", "/api/v1/näh", "create it", b"{}")]])
    assert isinstance(error, errors.TransportError)
    assert not creator.client._session._transport._pool._busy


def test_an_idle_connection_that_has_ended_costs_nothing(creating: Creating) -> None:
    def handler(exchange: Exchange) -> None:
        created(exchange)
        if exchange.connection == 1:
            exchange.hang_up()

    server, creator = creating(handler)
    creator.client.create(PODS, "ns", {"metadata": {"name": "first"}}, decode_nothing)
    [(idle, _)] = creator.client._session._transport._pool._idle
    eventually(lambda: readable(idle.sock), what="the end of the connection has come")
    assert creator.create_chains([chain("a")]) == [[None]]
    assert [name_of(request) for request in server.requests] == ["first", "a"]


def test_a_rate_limit_holds(creating: Creating) -> None:
    recorder = Recorder()
    _, creator = creating(created, limit=RateLimit(1000.0, 1), observer=recorder)
    for _ in range(2):
        assert creator.create_chains([chain(f"a{number}") for number in range(5)]) == [[None]] * 5
    assert len(recorder.waits) == 10
    assert any(seconds > 0 for seconds in recorder.waits)


def test_closing_the_client_ends_what_is_under_way_and_after_its_end_it_takes_nothing(creating: Creating) -> None:
    server, creator = creating(silent, warmed=True)
    waiting = InThread(lambda: creator.create_chains([chain("a", "b"), *(chain(f"c{n}") for n in range(8))]))
    eventually(lambda: len(server.requests) == 8, what="as many requests as may be are under way")
    creator.client.close()
    results = waiting.result()
    assert [type(result) for (result,) in results] == [errors.ClientClosed] * 9
    creator.close()
    creator.close()
    with pytest.raises(errors.ClientClosed):
        creator.create_chains([chain("b")])


# --- mistakes, and what nobody has thought of


def refuse_threads(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """Threads whose names begin like this can't be started while it is patched in."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(prefix):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


class Mistaken(Recorder):
    """An observer that fails when it gets a request without an answer."""

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        if code == "<error>":
            raise RuntimeError("a mistake")


def test_a_bug_is_told(creating: Creating, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    _, creator = creating(created)

    def broken(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(creator.client._session, "begin", broken)
    ((error,),) = creator.create_chains([chain("a")])
    assert isinstance(error, errors.TransportError)
    assert "a mistake" in str(error)
    assert "unexpected error" in caplog.text
    monkeypatch.undo()
    assert creator.create_chains([chain("a")]) == [[None]]


@pytest.mark.parametrize("where", ["_gather", "_begin_what_may"])
def test_a_mistake_ends_what_is_under_way(where: str, creating: Creating, monkeypatch: pytest.MonkeyPatch) -> None:
    server, creator = creating(silent, warmed=True)
    multiplexer = creator.multiplexer
    waiting = InThread(lambda: creator.create_chains([chain("a", "b"), chain("c")]))
    eventually(lambda: len(server.requests) == 6, what="both requests are under way")

    def broken() -> None:
        monkeypatch.undo()
        raise RuntimeError("a mistake")

    monkeypatch.setattr(multiplexer, where, broken)
    multiplexer._ring()
    results = waiting.result()
    assert [type(result) for (result,) in results] == [errors.TransportError] * 2
    assert "a mistake" in str(results[0][0])
    assert creator.create_chains([chain("warm-again")]) == [[None]]


def test_a_call_for_which_there_is_no_thread_fails_alone(creating: Creating, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()

    def handler(exchange: Exchange) -> None:
        assert not name_of(exchange).startswith("slow") or going_on.wait(60)
        created(exchange)

    server, creator = creating(handler, parallelism=8)
    warm(creator, 1)
    idle = creator.multiplexer._threads._idle_semaphore
    eventually(lambda: idle._value == 1, what="the only thread has come back from warming")
    waiting = InThread(lambda: creator.create_chains([chain("slow-1"), chain("slow-2")]))
    eventually(lambda: len(server.requests) == 3, what="the idle connection and the only thread are busy")
    with monkeypatch.context() as patch:
        refuse_threads(patch, "api-call_")
        ((error,),) = creator.create_chains([chain("a", "b", "c")])
    assert isinstance(error, errors.TransportError)
    assert "can't start new thread" in str(error)
    going_on.set()
    assert waiting.result() == [[None], [None]]
    InThread(creator.close).result()
    assert sorted(map(name_of, server.requests)) == ["slow-1", "slow-2", "warm-0"]


def test_without_a_thread_it_says_so_and_may_try_again(creating: Creating, monkeypatch: pytest.MonkeyPatch) -> None:
    server, creator = creating(created)
    with monkeypatch.context() as patch:
        refuse_threads(patch, "api-calls")
        with pytest.raises(errors.TransportError, match="can't start new thread"):
            creator.create_chains([chain("a")])
    assert InThread(lambda: creator.create_chains([chain("b")])).result() == [[None]]
    assert [name_of(request) for request in server.requests] == ["b"]


@pytest.mark.parametrize("ends", [Exchange.reset, silent])
def test_a_mistake_about_a_lost_answer_fails_that_call_alone(ends: Handler, creating: Creating) -> None:
    released = threading.Event()

    def handler(exchange: Exchange) -> None:
        if name_of(exchange) == "bad":
            ends(exchange)
            released.set()
        else:
            assert name_of(exchange) != "slow" or released.wait(60)
            created(exchange)

    timeout = 2.0 if ends is silent else 60.0
    _, creator = creating(handler, observer=Mistaken(), request_timeout=timeout)
    warm(creator)
    calls = [chain("bad", "never"), *([] if ends is silent else [chain("slow")])]
    results = InThread(lambda: creator.create_chains(calls)).result()
    ((error,), *others) = results
    assert isinstance(error, errors.TransportError)
    assert others == [[None]] * (len(calls) - 1)
    assert creator.create_chains([chain("again")]) == [[None]]
