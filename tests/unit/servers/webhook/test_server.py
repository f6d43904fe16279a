import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.support.eventually import eventually
from tests.support.http_mistakes import check_server
from tests.support.threads import InThread, run_at_once
from tests.unit.servers.webhook.test_review import older, review
from tfoperator.servers.certificates.pem import KeyPair
from tfoperator.servers.keyring.keyring import Keyring, new_keyring, renewed
from tfoperator.servers.webhook import server as module
from tfoperator.servers.webhook.metrics import WebhookMetrics
from tfoperator.servers.webhook.server import LIMITS, MAX_BODY, ReviewServer

VALIDITY = timedelta(days=1)


class Counted(WebhookMetrics):
    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []

    def review_failed(self, reason: str) -> None:
        self.failures.append(reason)


class Serving:
    def __init__(self, **limits: float) -> None:
        self.metrics = Counted()
        self.server = ReviewServer("127.0.0.1", 0, self.metrics, msgspec.structs.replace(LIMITS, **limits))
        self.keyring = new_keyring(["127.0.0.1"], datetime.now(UTC), VALIDITY)
        self.server.show(self.keyring.serving)
        self.connections = ExitStack()
        """Closes what is still open when the test ends."""

    def connect(self, keyring: Keyring | None = None) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=(keyring or self.keyring).bundle.decode())
        made = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=60)
        return self.connections.enter_context(closing(made))

    def raw(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        context = ssl.create_default_context(cadata=self.keyring.bundle.decode())
        return self.connections.enter_context(context.wrap_socket(self.plain(source), server_hostname="127.0.0.1"))

    def plain(self, source: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.server.port), timeout=60, source_address=(source, 0))
        return self.connections.enter_context(made)


@contextmanager
def served(**limits: float) -> Iterator[Serving]:
    started = Serving(**limits)
    started.server.start()
    with started.connections:
        yield started
    started.server.stop()


@pytest.fixture
def serving() -> Iterator[Serving]:
    with served() as started:
        yield started


def ask(connection: http.client.HTTPSConnection, body: bytes, path: str = "/convert") -> tuple[int, bytes]:
    connection.request("POST", path, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def converted(answer: tuple[int, bytes]) -> list[dict[str, Any]]:
    status, body = answer
    assert status == 200, body
    return list(json.loads(body)["response"]["convertedObjects"])


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def slow_answers(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Semaphore, threading.Event]:
    """Reviews are answered when the second is set; the first is released for each that has come."""
    begun, go_on, answer = threading.Semaphore(0), threading.Event(), module.answer

    def slowly(body: bytes) -> Any:
        begun.release()
        go_on.wait(20)
        return answer(body)

    monkeypatch.setattr(module, "answer", slowly)
    return begun, go_on


def test_reviews_are_answered_over_one_connection_however_large_and_many_at_once_and_after_a_drain_for_the_last_time(
    serving: Serving,
) -> None:
    connection, large = serving.connect(), older()
    large["metadata"]["annotations"] = {"large": "x" * (2 << 20)}
    for path, asked in (("/convert", older()), ("/convert?timeout=30s", large)):
        jobs = converted(ask(connection, review(asked, asked), path))
        assert [job["apiVersion"] for job in jobs] == ["kubeflow.org/v1"] * 2
        first = connection.sock
        assert first is not None
    assert connection.sock is first

    def client() -> None:
        connection = serving.connect()
        for _ in range(20):
            assert len(converted(ask(connection, review(older())))) == 1

    run_at_once(*[client] * 20)
    connection = serving.connect()
    converted(ask(connection, review(older())))
    serving.server.drain()
    connection.request("POST", "/convert", review(older()))
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Connection"]) == (200, "close")
    answer.read()


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "reason"),
    [
        ("/", b"{}", {}, 404, "path"),
        ("/convert", b"{}", {}, 400, "malformed"),
        ("/convert", b"", {"Content-Length": "-1"}, 400, "malformed"),
        ("/convert", b"", {"Content-Length": "x"}, 400, "malformed"),
        ("/convert", b"", {"Content-Length": str(MAX_BODY + 1)}, 413, "too_large"),
        ("/convert", b"", {"Content-Length": "9" * 19}, 413, "too_large"),
        ("/convert", b"", {"Content-Length": "2", "Transfer-Encoding": "chunked"}, 400, "malformed"),
    ],
)
def test_what_is_no_review_gets_a_clear_answer(
    serving: Serving, path: str, body: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    connection = serving.connect()
    connection.putrequest("POST", path)
    for name, value in ({"Content-Length": str(len(body))} | headers).items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    assert answer.status == status
    assert answer.read().strip()
    assert serving.metrics.failures == [reason]


def test_no_request_is_understood_in_two_ways(serving: Serving) -> None:
    check_server(serving.raw, "/convert", head=501)


def test_plain_text_and_old_protocols_are_refused(serving: Serving) -> None:
    plain = serving.plain()
    plain.sendall(b"POST /convert HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    eventually(lambda: is_closed(plain), what="the connection is closed")
    context = ssl.create_default_context(cadata=serving.keyring.bundle.decode())
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        context.wrap_socket(serving.plain(), server_hostname="127.0.0.1")


def test_who_is_slow_is_cut_off_but_a_connection_that_has_asked_may_rest() -> None:
    with served(handshake_seconds=0.5, request_seconds=0.5) as serving:
        connection = serving.connect()
        converted(ask(connection, review(older())))
        with serving.plain() as mute:
            eventually(lambda: is_closed(mute), what="not a valid WebSocket handshake")
        for sent in (b"", b"POST /con", b"POST /convert HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"):
            with serving.raw() as slow:
                slow.sendall(sent)
                eventually(lambda: is_closed(slow), what=f"the end after {sent!r}")
        converted(ask(connection, review(older())))


def test_idle_connections_of_a_stranger_and_the_oldest_of_ones_own_make_room_for_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served() as serving:
        for number in range(160):
            serving.plain(f"127.0.0.{2 + number // 40}")
        connection = serving.connect()
        converted(ask(connection, review(older())))
        # A connection that has been answered rests longer than connections that came after it.
        for _ in range(60):
            serving.plain("127.0.0.9")
        converted(ask(connection, review(older())))
    monkeypatch.setattr("tfoperator.servers.http.connections._FLEETING_SECONDS", 0.0)
    with served(per_source=2) as serving:
        first, second, third = (serving.connect() for _ in range(3))
        converted(ask(first, review(older())))
        converted(ask(second, review(older())))
        converted(ask(third, review(older())))
        assert first.sock is not None
        eventually(lambda: is_closed(first.sock), what="the oldest is closed")
        converted(ask(second, review(older())))


def test_what_is_received_of_one_source_is_bounded() -> None:
    with served(received=2 << 20) as serving:
        unfinished = []
        for _ in range(4):
            sender = serving.raw("127.0.0.2")
            sender.sendall(b"POST /convert HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n" + b" " * (500 << 10))
            unfinished.append(sender)
        eventually(lambda: any(map(is_closed, unfinished)), what="one is ended")
        job = older()
        job["metadata"]["annotations"] = {"large": "x" * (1 << 19)}
        connection = serving.connect()
        assert len(converted(ask(connection, review(job)))) == 1


def test_where_nobody_is_idle_a_crowd_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = slow_answers(monkeypatch)
    with served(connections=2) as serving:
        inside = [serving.connect(), serving.connect()]
        for connection in inside:
            connection.request("POST", "/convert", review(older()))
            assert begun.acquire(timeout=60)
        late = serving.connect()
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(late, review(older()))
        assert serving.metrics.failures == ["turned_away"]
        go_on.set()
        for connection in inside:
            response = connection.getresponse()
            converted((response.status, response.read()))


def test_without_a_certificate_nobody_is_served() -> None:
    server = ReviewServer("127.0.0.1", 0, WebhookMetrics())
    assert not server.is_ready()
    server.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        eventually(lambda: is_closed(connection), what="the connection is closed")
    server.stop()


def test_stopping_waits_for_an_answer_but_not_for_who_rests(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    resting = serving.connect()
    converted(ask(resting, review(older())))
    begun, go_on = slow_answers(monkeypatch)
    monkeypatch.setattr("tfoperator.servers.http.server._DRAIN_SECONDS", 600.0)
    busy = serving.connect()
    busy.request("POST", "/convert", review(older()))
    assert begun.acquire(timeout=60)
    stopping = InThread(serving.server.stop)
    assert resting.sock is not None
    eventually(lambda: is_closed(resting.sock), what="the resting one is closed")
    go_on.set()
    response = busy.getresponse()
    assert len(converted((response.status, response.read()))) == 1
    stopping.result()


def test_a_bug_costs_one_connection(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: bytes) -> Any:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(module, "answer", broken)
        connection = serving.connect()
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(connection, review(older()))
    assert serving.metrics.failures == ["error"]
    connection = serving.connect()
    converted(ask(connection, review(older())))


def test_a_pair_that_does_not_match_is_refused_and_a_new_certificate_is_for_new_connections(serving: Serving) -> None:
    other = new_keyring(["127.0.0.1"], datetime.now(UTC), VALIDITY)
    for pair in (KeyPair(serving.keyring.serving.certificate, other.serving.key), KeyPair(b"", b"")):
        with pytest.raises(ValueError, match="can't be used together") as caught:
            serving.server.show(pair)
        assert "BEGIN" not in str(caught.value)
    old = serving.connect()
    converted(ask(old, review(older())))
    following = renewed(serving.keyring, ["127.0.0.1"], datetime.now(UTC), VALIDITY)
    serving.server.show(following.serving)
    converted(ask(old, review(older())))
    new = serving.connect()  # trusts the bundle of before, which had the issuer of the new certificate already
    converted(ask(new, review(older())))
    for connection, pair in ((old, serving.keyring.serving), (new, following.serving)):
        assert isinstance(connection.sock, ssl.SSLSocket)
        shown = ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(binary_form=True) or b"")
        assert shown.encode() == pair.certificate


def test_requests_that_fail_are_no_way_to_fill_a_log(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    failing = review(older(), to="kubeflow.org/v9")
    connection = serving.connect()
    for _ in range(30):
        assert ask(connection, failing)[0] == 200
    assert 0 < len([record for record in caplog.records if "conversion failed" in record.getMessage()]) <= 10
    assert serving.metrics.failures == ["conversion"] * 30
