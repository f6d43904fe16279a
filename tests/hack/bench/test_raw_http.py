from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest

from hack.bench import raw_http
from hack.bench.raw_http import RawClient
from tfoperator.local.apiserver import EmbeddedApiServer


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_connection_that_the_server_may_have_closed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    monkeypatch.setattr(raw_http, "time", watch)
    with EmbeddedApiServer(token="secret") as server:
        ca = tmp_path / "ca.crt"
        cluster = server.kubeconfig()["clusters"][0]["cluster"]
        ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        client = RawClient(server.url, ca, "secret")
        assert b"tfjobs" in client.request("GET", "/apis/kubeflow.org/v1")
        [connection] = client._connections
        connection.sock.shutdown(socket.SHUT_RDWR)
        watch.now = 89.0
        assert b"tfjobs" in client.request("GET", "/apis/kubeflow.org/v1")
        assert client._connections == [connection]
        client.close()
