"""Requests as attackers write them, to the embedded API server."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import pytest

from tests.support.http_mistakes import check_server
from tfoperator.local.apiserver import EmbeddedApiServer


@pytest.mark.parametrize("knows_the_token", [False, True])
def test_no_request_is_understood_in_two_ways(knows_the_token: bool) -> None:
    with EmbeddedApiServer() as server:
        context = ssl.create_default_context(cadata=server.certificate.decode())

        def connect() -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=60)
            return context.wrap_socket(plain, server_hostname="127.0.0.1")

        known = f"Authorization: Bearer {server.token}\r\n" if knows_the_token else ""
        status = 405 if knows_the_token else 401
        check_server(connect, "/api/v1/pods", head=status, headers=f"Host: x\r\n{known}")
