"""Which control plane the page takes for this machine's own."""

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
