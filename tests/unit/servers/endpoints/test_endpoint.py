import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import msgspec
import pytest

from tests.support.eventually import eventually
from tests.support.operator_process import ask
from tests.support.threads import InThread, run_at_once
from tfoperator.servers.endpoints.endpoint import LIMITS, Endpoint, _Page
from tfoperator.servers.http.limits import Address
from tfoperator.servers.http.messages import Answer

LOOPBACK = Address("127.0.0.1", 0)


def broken() -> Answer:
    raise RuntimeError("a bug")


BEGUN, GO_ON = threading.Semaphore(0), threading.Event()


def slow() -> Answer:
    BEGUN.release()
    GO_ON.wait(60)
    return Answer(b"made\n")


ROUTES = {
    "/healthz": lambda: Answer(b"ok\n"),
    "/readyz": lambda: Answer(b"not yet\n", HTTPStatus.SERVICE_UNAVAILABLE),
    "/slow": slow,
    "/broken": broken,
}


@contextmanager
def running(**limits: float) -> Iterator[Endpoint]:
    http_endpoint = Endpoint(LOOPBACK, ROUTES, name="test", limits=msgspec.structs.replace(LIMITS, **limits))
    http_endpoint.start()
    yield http_endpoint
    http_endpoint.stop()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running() as http_endpoint:
        yield http_endpoint


def connect(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection(("127.0.0.1", endpoint.port), timeout=60)


def get(endpoint: Endpoint, path: str) -> tuple[int, str]:
    return ask(endpoint.port, path)


def test_paths_answer_what_they_are_told_to_and_a_bug_in_one_costs_one_answer(endpoint: Endpoint) -> None:
    assert get(endpoint, "/readyz") == (503, "not yet\n")
    assert get(endpoint, "/secrets")[0] == 404
    with pytest.raises(OSError, match="closed connection"):
        get(endpoint, "/broken")
    assert get(endpoint, "/healthz") == get(endpoint, "/healthz?verbose") == (200, "ok\n")


def test_a_page_that_takes_long_holds_up_no_other(endpoint: Endpoint) -> None:
    waiting = [InThread(lambda: get(endpoint, "/slow")) for _ in range(8)]
    assert BEGUN.acquire(timeout=60)
    assert get(endpoint, "/healthz")[0] == 200
    GO_ON.set()
    assert {call.result() for call in waiting} == {(200, "made\n")}


@pytest.mark.asyncio
async def test_a_page_is_made_once_for_all_who_wait() -> None:
    made: list[int] = []

    def make() -> Answer:
        made.append(1)
        return Answer(b"made\n")

    page = _Page(make, "/page")
    answers = await asyncio.gather(*(page.get() for _ in range(8)))
    assert (len(made), {answer.body for answer in answers}) == (1, {b"made\n"})
    await page.get()
    assert len(made) == 2
    page.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /healthz\r\n\r\n", b"400"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"413"),
        (b"POST /healthz HTTP/1.1\r\n\r\n", b"501"),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 40000 + b"\r\n\r\n", b"431"),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_what_is_no_request_gets_a_clear_answer(endpoint: Endpoint, sent: bytes, status: bytes) -> None:
    with connect(endpoint) as connection:
        connection.sendall(sent)
        assert connection.makefile("rb").readline().split()[1] == status


def test_a_client_that_trickles_is_cut_off() -> None:
    with running(request_seconds=0.3) as endpoint, connect(endpoint) as connection:
        connection.settimeout(0.05)
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")

        def cut_off() -> bool:
            try:
                connection.sendall(b"X")
                return connection.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(cut_off, what="the connection is closed")


def test_stopping_does_not_wait_for_who_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfoperator.servers.http.server._DRAIN_SECONDS", 600.0)
    with running(request_seconds=600.0) as endpoint, connect(endpoint) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert get(endpoint, "/healthz")[0] == 200
        run_at_once(endpoint.stop)
