from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from tests.support.eventually import eventually
from tfoperator.operator.endpoints import Answer, Endpoint, EndpointError
from tfoperator.operator.values import Address

LOOPBACK = Address("127.0.0.1", 0)


def broken() -> Answer:
    raise RuntimeError("a bug")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    routes = {
        "/healthz": lambda: Answer(b"ok\n"),
        "/readyz": lambda: Answer(b"not yet\n", HTTPStatus.SERVICE_UNAVAILABLE),
        "/broken": broken,
    }
    one = Endpoint(LOOPBACK, routes, name="test")
    one.start()
    yield one
    one.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("http")]


def get(endpoint: Endpoint, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_paths_answer_what_they_are_told_to(endpoint: Endpoint) -> None:
    assert get(endpoint, "/healthz") == (200, "ok\n")
    assert get(endpoint, "/healthz?verbose") == (200, "ok\n")
    assert get(endpoint, "/readyz") == (503, "not yet\n")
    assert get(endpoint, "/secrets")[0] == 404


def test_a_bug_in_a_route_costs_one_answer(endpoint: Endpoint) -> None:
    with pytest.raises(OSError, match="closed connection"):
        get(endpoint, "/broken")
    assert get(endpoint, "/healthz")[0] == 200


def test_silent_clients_do_not_keep_probes_out_for_long(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfoperator.operator.endpoints._REQUEST_SECONDS", 0.2)
    silent = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(12)]
    try:
        assert get(endpoint, "/healthz")[0] == 200
    finally:
        for one in silent:
            one.close()


def test_a_client_that_trickles_is_cut_off(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfoperator.operator.endpoints._REQUEST_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", endpoint.port)) as one:
        one.settimeout(0.05)
        one.sendall(b"GET /healthz HTTP/1.1\r\n")

        def cut_off() -> bool:
            try:
                one.sendall(b"X")
                return one.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(cut_off, what="the connection is closed")


def test_stopping_does_not_wait_for_who_is_slow() -> None:
    one = Endpoint(LOOPBACK, {}, name="slow")
    one.start()
    with socket.create_connection(("127.0.0.1", one.port)) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        eventually(lambda: one._server._deadlines, what="the request has begun")
        began = time.monotonic()
        one.stop()
        assert time.monotonic() - began < 2


def test_a_flood_is_turned_away_instead_of_piling_up_threads(endpoint: Endpoint) -> None:
    flood = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(60)]
    try:

        def turned_away() -> bool:
            flood[-1].settimeout(0.05)
            try:
                return flood[-1].recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionResetError:
                return True

        eventually(turned_away, what="the last one is turned away")
        assert sum(thread.name.startswith("http") for thread in threading.enumerate()) <= 5
    finally:
        for one in flood:
            one.close()


def test_a_taken_port_is_named(endpoint: Endpoint) -> None:
    with pytest.raises(EndpointError, match=f"127.0.0.1:{endpoint.port} for health.*in use"):
        Endpoint(Address("127.0.0.1", endpoint.port), {}, name="health")


def test_it_can_be_stopped_without_having_been_started() -> None:
    Endpoint(LOOPBACK, {}, name="idle").stop()
