"""Broken HTTP leaves no traceback and few lines in the log of any HTTP server of ours, and the server serves on."""

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from tests.support.broken_http import BROKEN_REQUESTS, send_broken
from tests.support.clock import FakeClock
from tests.unit.servers.endpoints.test_secure_metrics import ROUTES, Closable
from tests.unit.servers.endpoints.test_secure_metrics import context as any_certificate
from tfoperator.informers.store import Indexer, Lister
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.servers.certificates.tls import TlsServer
from tfoperator.servers.endpoints.endpoint import Endpoint
from tfoperator.servers.endpoints.secure_metrics import SecureEndpoint
from tfoperator.servers.http.limits import Address
from tfoperator.servers.http.server import HttpServer
from tfoperator.servers.http.strangers_log import LINES, LINES_PER_SOURCE
from tfoperator.servers.keyring.keyring import new_keyring
from tfoperator.servers.progress.metrics import ProgressMetrics
from tfoperator.servers.progress.server import ProgressEndpoint
from tfoperator.servers.progress.tokens import TokenVerifier
from tfoperator.servers.webhook.metrics import WebhookMetrics
from tfoperator.servers.webhook.server import ReviewServer
from tfoperator.ui.server import UiServer

ADDRESS = Address("127.0.0.1", 0)


class Served(NamedTuple):
    """A server: its port, the context of its clients, and headers of a client that it knows."""

    port: int
    context: ssl.SSLContext | None = None
    headers: str = ""


@contextmanager
def started(server: HttpServer) -> Iterator[Served]:
    if isinstance(server, TlsServer) and not isinstance(server, Endpoint):
        server.show(new_keyring(["127.0.0.1"], datetime.now(UTC), timedelta(days=1)).serving)
    server.start()
    try:
        yield Served(server.port, any_certificate() if isinstance(server, TlsServer) else None)
    finally:
        server.stop()


@contextmanager
def embedded(*, authenticated: bool = False) -> Iterator[Served]:
    with EmbeddedApiServer() as server:
        headers = f"Authorization: Bearer {server.token}\r\n" if authenticated else ""
        yield Served(int(server.url.rpartition(":")[2]), any_certificate(), headers)


def progress() -> ProgressEndpoint:
    empty: Any = Lister(Indexer())
    clock = FakeClock()
    verifier = TokenVerifier(lambda _: b'{"issuer": "x", "keys": []}', clock=clock)
    where: Any = {"verifier": verifier, "jobs": empty, "pods": empty, "take": lambda *_: None}
    return ProgressEndpoint("127.0.0.1", 0, **where, clock=clock, metrics=ProgressMetrics())


OURS: dict[type[HttpServer], Callable[[], HttpServer]] = {
    Endpoint: lambda: Endpoint(ADDRESS, ROUTES, name="test"),
    SecureEndpoint: lambda: SecureEndpoint(ADDRESS, ROUTES, Closable(), name="metrics"),  # type: ignore[arg-type]
    ReviewServer: lambda: ReviewServer("127.0.0.1", 0, WebhookMetrics()),
    ProgressEndpoint: progress,
    UiServer: lambda: UiServer(None),
}
SERVERS = {
    "embedded": embedded,
    "embedded, with the token": lambda: embedded(authenticated=True),
    **{kind.__name__: lambda make=make: started(make()) for kind, make in OURS.items()},
}


def kinds_of(kind: type) -> set[type]:
    return {kind, *(each for subclass in kind.__subclasses__() for each in kinds_of(subclass))}


def test_every_server_is_tried() -> None:
    there = {kind for kind in kinds_of(HttpServer) if kind.__module__.startswith("tfoperator.")}
    assert there == {HttpServer, TlsServer, EmbeddedApiServer, *OURS}


def answers(served: Served) -> bool:
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=10))
        if served.context is not None:
            connection = stack.enter_context(served.context.wrap_socket(connection, server_hostname="127.0.0.1"))
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: x\r\n{served.headers}\r\n".encode())
        return connection.recv(5) == b"HTTP/"


@pytest.mark.parametrize("name", SERVERS)
def test_broken_http_leaves_no_traceback_and_few_lines_and_the_server_serves(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    with SERVERS[name]() as served, ThreadPoolExecutor(16) as threads:
        own = served.headers.encode()
        sent = [data.replace(b"Host: x\r\n", b"Host: x\r\n" + own, 1) for data in BROKEN_REQUESTS.values()]
        contexts = {served.context, None}
        tries = [(data, context, reset) for data in sent for context in contexts for reset in (False, True)]
        list(threads.map(lambda attempt: send_broken(served.port, attempt[0], attempt[1], reset=attempt[2]), tries))
        assert answers(served)
    lines = caplog.records
    assert [line.getMessage() for line in lines if line.exc_info or "Traceback" in line.getMessage()] == []
    assert len(lines) <= min(LINES, 2 * LINES_PER_SOURCE), [line.getMessage() for line in lines]
    assert capfd.readouterr() == ("", "")
