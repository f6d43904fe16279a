import logging
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.kube.conftest import MakeClient, Serve
from tests.unit.kube.server import Exchange, lists_and_watches
from tfoperator.kube.client import Client, RateLimit
from tfoperator.kube.config.credentials import IssuedCredential, IssuedCredentials
from tfoperator.kube.protocol.errors import (
    ClientClosed,
    ConfigError,
    ConnectionRefused,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from tfoperator.kube.protocol.observer import RequestObserver
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.objects import PartialObject

DECODE = decoder(PartialObject)


class Recorder(RequestObserver):
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.waits: list[float] = []
        self.retries: list[tuple[str, str]] = []
        self.without_credential = 0

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        assert seconds >= 0
        self.requests.append((method, host, code))

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        self.waits.append(seconds)

    def retry(self, method: str, host: str, code: str) -> None:
        self.retries.append((method, code))

    def no_credential(self) -> None:
        self.without_credential += 1


def refuse(times: int, code: int, **headers: str) -> Callable[[Exchange], None]:
    def handler(exchange: Exchange) -> None:
        if len(exchange.server.requests) <= times:
            exchange.status(code, "Busy", "come back later", headers=headers)
        else:
            exchange.respond(200, {"metadata": {"name": "a"}})

    return handler


WRITES: list[Callable[[Client], object]] = [
    lambda c: c.create(PODS, "ns", {}, DECODE),
    lambda c: c.replace(PODS, "ns", "a", {}, DECODE),
    lambda c: c.patch(PODS, "ns", "a", {}, DECODE),
    lambda c: c.delete(PODS, "ns", "a"),
]


def read(client: Client) -> object:
    return client.get(PODS, "ns", "a", DECODE)


def watch(client: Client) -> object:
    return client.watch(PODS, "", DECODE).close()


@pytest.mark.parametrize("do", [read, watch, *WRITES])
def test_a_429_is_repeated_when_told_to(serve: Serve, do: Callable[[Client], object], client_for: MakeClient) -> None:
    clock, observer = FakeClock(), Recorder()
    server = serve(refuse(2, 429, Retry_After="3"))
    with client_for(server.url, clock=clock, observer=observer) as client:
        call = InThread(lambda: do(client))
        for attempt in (1, 2):
            clock.wait_for_waiters()
            assert len(server.requests) == attempt
            clock.advance(2.9)
            assert len(server.requests) == attempt
            clock.advance(0.2)
            eventually(lambda n=attempt: len(server.requests) == n + 1)
        call.result()
    method = server.requests[0].method
    assert [code for _, _, code in observer.requests] == ["429", "429", "200"]
    assert observer.retries == [(method, "429")] * 2


def test_a_request_without_a_credential_is_observed(serve: Serve, client_for: MakeClient) -> None:
    observer = Recorder()
    credentials = IssuedCredentials(Mock(side_effect=ConfigError("log in again")))
    server = serve(lists_and_watches())
    with pytest.raises(ConfigError, match="log in again"):
        read(client_for(server.url, {"credentials": credentials}, observer=observer))
    assert (observer.without_credential, server.requests) == (1, [])


@pytest.mark.parametrize("code", [500, 503, 504])
def test_a_5xx_is_repeated_for_reads_only(serve: Serve, code: int, client_for: MakeClient) -> None:
    server = serve(refuse(1, code, Retry_After="0"))
    with client_for(server.url) as client:
        read(client)
        assert len(server.requests) == 2
        for do in WRITES:
            server.requests.clear()
            with pytest.raises(ServerError):
                do(client)
            assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("times", "header", "wish", "asked"),
    [
        pytest.param(1, {}, None, 1, id="the_server_does_not_say_when"),
        pytest.param(1, {"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None, 1, id="it_says_a_date"),
        pytest.param(1, {"Retry_After": "-1"}, None, 1, id="it_says_nonsense"),
        pytest.param(1, {"Retry_After": "3600"}, 3600, 1, id="a_long_wait_is_left_to_the_caller"),
        pytest.param(1000, {"Retry_After": "0"}, 0, 11, id="repeating_ends_after_ten_times"),
    ],
)
def test_a_429_is_raised_if(
    serve: Serve, client_for: MakeClient, times: int, header: dict[str, str], wish: float | None, asked: int
) -> None:
    server = serve(refuse(times, 429, **header))
    with pytest.raises(TooManyRequestsError, match="come back") as caught:
        read(client_for(server.url))
    assert caught.value.retry_after == wish
    assert len(server.requests) == asked


def check_that_close_ends_the_wait(client: Client, clock: FakeClock) -> None:
    call = InThread(lambda: read(client))
    clock.wait_for_waiters()
    client.close()
    with pytest.raises(ClientClosed):
        call.result()


def test_close_ends_the_wait_for_a_retry(serve: Serve, client_for: MakeClient) -> None:
    clock = FakeClock()
    server = serve(refuse(1, 429, Retry_After="30"))
    with client_for(server.url, clock=clock) as client:
        check_that_close_ends_the_wait(client, clock)
    assert len(server.requests) == 1


ok = lists_and_watches({"metadata": {"name": "a"}})


def test_nothing_waits_unless_that_is_asked_for_and_short_waits_are_not_logged(
    client_for: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tfoperator.kube.http.sending.session")
    observer = Recorder()
    client = client_for(ok, clock=FakeClock(), observer=observer)
    for _ in range(200):
        read(client)
    assert observer.waits == []
    client = client_for(ok, limit=RateLimit(1000, 1))
    for _ in range(5):
        read(client)
    assert caplog.records == []


def test_requests_beyond_the_burst_wait_their_turn_and_that_is_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture, client_for: MakeClient
) -> None:
    caplog.set_level(logging.DEBUG, "tfoperator.kube.http.sending.session")
    clock, observer = FakeClock(), Recorder()
    server = serve(ok)
    with client_for(server.url, limit=RateLimit(10, 2), clock=clock, observer=observer) as client:
        for _ in range(2):
            read(client)
        call = InThread(lambda: read(client))
        clock.wait_for_waiters()
        assert len(server.requests) == 2
        assert call.running
        clock.advance(0.1)
        call.result()
        limiter = client._session._limiter
        for _ in range(11):
            limiter.reserve()  # others' requests
        call = InThread(lambda: read(client))
        clock.pass_time(1.2)
        call.result()
    assert observer.waits == pytest.approx([0, 0, 0.1, 1.2])
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", "the client's own rate limiter delayed the request for 0.10 s: get pods ns/a"),
        ("INFO", "the client's own rate limiter delayed the request for 1.20 s: get pods ns/a"),
    ]


def test_watches_do_not_wait_for_the_rate_limiter_and_close_ends_the_wait_for_it(client_for: MakeClient) -> None:
    clock = FakeClock()
    with client_for(ok, limit=RateLimit(0.001, 1), clock=clock) as client:
        read(client)
        for _ in range(5):
            assert list(client.watch(PODS, "", DECODE)) == []
        check_that_close_ends_the_wait(client, clock)


def test_an_attempt_without_an_answer_is_observed(client_for: MakeClient) -> None:
    observer = Recorder()
    with pytest.raises(ConnectionRefused, match="get pods ns/a: no server"):
        read(client_for("http://127.0.0.1:1", observer=observer))
    assert observer.requests == [("GET", "127.0.0.1:1", "<error>")]


def issuing(*tokens: str) -> IssuedCredentials:
    left = list(tokens)
    return IssuedCredentials(lambda: IssuedCredential(authorization=left.pop(0) if len(left) > 1 else left[0]))


def guarded(exchange: Exchange) -> None:
    if exchange.headers.get("authorization") == "Bearer new":
        exchange.respond(201, {"metadata": {"name": "a"}})
    else:
        exchange.status(401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("do", [read, *WRITES])
def test_a_401_is_repeated_once_with_newer_credentials(
    serve: Serve, client_for: MakeClient, do: Callable[[Client], object]
) -> None:
    server = serve(guarded)
    client = client_for(server.url, {"credentials": issuing("Bearer old", "Bearer new")})
    do(client)
    do(client)
    assert [r.headers["authorization"] for r in server.requests] == ["Bearer old", "Bearer new", "Bearer new"]


@pytest.mark.parametrize("tokens", [["Bearer old"], ["Bearer old", "Bearer older"]])
def test_a_401_with_the_newest_credentials_is_an_error(serve: Serve, client_for: MakeClient, tokens: list[str]) -> None:
    server = serve(guarded)
    with pytest.raises(UnauthorizedError):
        read(client_for(server.url, {"credentials": issuing(*tokens)}))
    assert [r.headers["authorization"] for r in server.requests] == tokens
