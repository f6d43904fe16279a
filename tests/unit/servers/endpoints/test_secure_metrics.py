import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.unit.servers.endpoints.test_access_reviews import Server
from tfoperator.kube.protocol.errors import ClientClosed
from tfoperator.servers.certificates.pem import KeyPair, make_authority, make_certificate
from tfoperator.servers.endpoints.secure_metrics import OWN_VALIDITY, SecureEndpoint
from tfoperator.servers.http.limits import Address
from tfoperator.servers.http.messages import Answer

ROUTES: dict[str, Callable[[], Answer]] = {"/metrics": lambda: Answer(b"up 1\n")}
PROMETHEUS = {"Authorization": "Bearer good"}
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n"


class Closable(Server):
    closed = False

    def close(self) -> None:
        """As the client: whatever is under way ends with an error."""
        self.closed = True
        self.failure = ClientClosed("closed")
        self.answers.set()


@contextmanager
def running(server: Closable, **options: Any) -> Iterator[SecureEndpoint]:
    client: Any = server
    endpoint = SecureEndpoint(Address("127.0.0.1", 0), ROUTES, client, name="metrics", **options)
    endpoint.start()
    yield endpoint
    endpoint.stop()
    endpoint.stop()
    assert server.closed


@pytest.fixture
def server() -> Closable:
    return Closable()


def context() -> ssl.SSLContext:
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls_context.check_hostname, tls_context.verify_mode = False, ssl.CERT_NONE
    return tls_context


def get(
    endpoint: SecureEndpoint,
    path: str = "/metrics",
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> tuple[int, str]:
    connection = http.client.HTTPSConnection("127.0.0.1", endpoint.port, timeout=20, context=tls or context())
    with closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def connect(endpoint: SecureEndpoint) -> socket.socket:
    return socket.create_connection(("127.0.0.1", endpoint.port), timeout=20)


def shown(endpoint: SecureEndpoint) -> x509.Certificate:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", endpoint.port), timeout=20).encode())


def test_only_who_may_read_metrics_reads_them(server: Closable) -> None:
    with running(server) as endpoint:
        assert get(endpoint, **PROMETHEUS) == (200, "up 1\n")
        status, body = get(endpoint, Authorization="Bearer curious")
        assert status == 403
        assert body.startswith("system:serviceaccount:team:default may not get /metrics")
        assert get(endpoint, Authorization="Bearer unknown")[0] == 401
        assert get(endpoint)[0] == 401
        assert get(endpoint, Authorization="Basic good")[0] == 401


def test_what_is_not_served_or_not_encrypted_is_not_asked_about(server: Closable) -> None:
    with running(server) as endpoint:
        assert get(endpoint, "/secrets", **PROMETHEUS)[0] == 404
        assert get(endpoint, "/metrics", "POST", **PROMETHEUS)[0] == 501
        with connect(endpoint) as plain:
            plain.sendall(REQUEST)
            assert b"up 1" not in plain.makefile("rb").read()
        assert server.asked == []
        assert get(endpoint, "/metrics?format=x", **PROMETHEUS)[0] == 200


def test_a_certificate_of_its_own_is_made_anew_in_time(server: Closable) -> None:
    clock = FakeClock(datetime.now(UTC))
    with running(server, clock=clock) as endpoint:
        first = shown(endpoint)
        assert shown(endpoint) == first
        clock.advance(OWN_VALIDITY.total_seconds() * 2 / 3)
        second = shown(endpoint)
        assert second != first
        assert second.not_valid_after_utc > first.not_valid_after_utc


def test_a_certificate_from_files_can_be_verified_and_is_read_again(server: Closable, tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC))
    authority = make_authority("test", clock.now(), timedelta(days=1))
    verifying = ssl.create_default_context(cadata=authority.certificate.decode())
    with running(server, clock=clock, cert_dir=str(tmp_path)) as endpoint:
        with pytest.raises(OSError):
            get(endpoint, **PROMETHEUS)  # there is no certificate yet, and the server shows no other certificate
        for _ in range(2):
            pair = make_certificate(authority, ["127.0.0.1"], clock.now(), timedelta(hours=1))
            (tmp_path / "tls.key").write_bytes(pair.key)
            (tmp_path / "tls.crt").write_bytes(pair.certificate)
            clock.pass_time(5.0)

            def is_shown(pair: KeyPair = pair) -> bool:
                return endpoint.is_ready() and shown(endpoint) == x509.load_pem_x509_certificate(pair.certificate)

            eventually(is_shown, within=60, what="the certificate")
            assert get(endpoint, tls=verifying, **PROMETHEUS) == (200, "up 1\n")


def test_it_stops_while_the_api_server_says_nothing(server: Closable) -> None:
    server.answers.clear()
    with running(server) as endpoint, context().wrap_socket(connect(endpoint)) as waiting:  # closes both
        waiting.sendall(REQUEST)
        eventually(lambda: server.asked, within=60, what="a question")
        endpoint.stop()
