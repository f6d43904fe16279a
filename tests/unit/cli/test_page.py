"""Which control plane the page takes for this machine's own."""

from typing import cast

import pytest

from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.cli.page import is_local
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import StaticCredentials
from tfoperator.kube.config.tls import TlsOptions
from tfoperator.local.apiserver.server import EmbeddedApiServer


def test_the_embedded_control_plane_is_known_by_its_version() -> None:
    with EmbeddedApiServer() as server:
        trust = TlsOptions(ca=server.certificate)
        with Client(
            ClusterConfig(server=server.url, tls=trust, credentials=StaticCredentials(f"Bearer {server.token}"))
        ) as client:
            assert is_local(client)


@pytest.mark.parametrize(("status", "version"), [(200, "v1.37.2"), (403, "v1.37.2+tfoperator.embedded")])
def test_no_other_is(status: int, version: str) -> None:
    def handle(exchange: Exchange) -> None:
        exchange.respond(status, {"gitVersion": version})

    with ScriptedServer(handle) as server, Client(ClusterConfig(server=server.url)) as client:
        assert not is_local(client)


def test_a_server_elsewhere_is_not_believed() -> None:
    class Says:
        """A client of a server that claims to be this machine's."""

        def __init__(self, server: str) -> None:
            self.server = server

        def get_raw(self, _path: str) -> bytes:
            return b'{"gitVersion": "v1.37.2+tfoperator.embedded"}'

    for server in (
        "https://cluster.example:6443",
        "https://127.0.0.1.example",
        "https://127.0.0.1@cluster.example",
        "",
    ):
        assert not is_local(cast(Client, Says(server))), server
    for server in ("https://127.0.0.1:6443", "https://[::1]:1", "https://localhost:8443"):
        assert is_local(cast(Client, Says(server))), server
