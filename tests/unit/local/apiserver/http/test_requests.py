"""Requests as attackers write them, to the embedded API server."""

import socket
import ssl
from urllib.parse import urlsplit

import pytest

from tests.support.http_mistakes import check_server, exchanged, statuses
from tfoperator.local.apiserver.server import EmbeddedApiServer


def connected(server: EmbeddedApiServer) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=60)
    trust = ssl.create_default_context(cadata=server.certificate.decode())
    return trust.wrap_socket(plain, server_hostname="127.0.0.1")


def test_malformed_requests_are_no_way_to_fill_a_log(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedApiServer() as server:
        for _ in range(30):
            assert statuses(exchanged(lambda: connected(server), b"GET / HTTP/1.1x\r\n\r\n")) == [400]
    assert len(caplog.records) <= 10


@pytest.mark.parametrize("knows_the_token", [False, True])
def test_no_request_is_understood_in_two_ways(knows_the_token: bool) -> None:
    with EmbeddedApiServer() as server:
        authorization = f"Authorization: Bearer {server.token}\r\n" if knows_the_token else ""
        status = 405 if knows_the_token else 401
        check_server(lambda: connected(server), "/api/v1/pods", head=status, headers=f"Host: x\r\n{authorization}")
