"""Two API servers, one suite: every test here runs unchanged on the embedded server and on a real kube-apiserver."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.support import NAMESPACES, Http, Space, decode, load_config
from tests.support.cluster import Cluster
from tests.support.jobs import write_kubeconfig
from tests.support.node_logs import NodeLogs
from tfoperator.api.schema.crd import crd
from tfoperator.kube.client import Client
from tfoperator.local.apiserver.http.pod_streams import NodeStreams
from tfoperator.local.apiserver.server import EmbeddedApiServer


@dataclass(frozen=True)
class ApiServer:
    name: str
    kubeconfig: Path
    client: Client
    http: Http
    node_logs: NodeLogs | None = None
    """The logs that the embedded server serves; None: this server asks a kubelet."""


@contextmanager
def _connected(name: str, kubeconfig: Path, logs: NodeLogs | None = None) -> Iterator[ApiServer]:
    with Client(load_config(str(kubeconfig))) as client:
        yield ApiServer(name, kubeconfig, client, Http(kubeconfig), logs)


@contextmanager
def _embedded(folder: Path) -> Iterator[ApiServer]:
    logs = NodeLogs()
    with EmbeddedApiServer(node=NodeStreams(logs.read)) as server:
        kubeconfig = write_kubeconfig(folder / "kubeconfig", server.kubeconfig(), "default")
        with _connected("embedded", kubeconfig, logs) as connected:
            yield connected


@contextmanager
def _real() -> Iterator[ApiServer]:
    from hack.controlplane import control_plane
    from tests.support.webhook import conversion_webhook

    with control_plane() as plane, _connected("real", plane.kubeconfig) as connected:
        Cluster(connected.client).install_crd(crd(all_versions=True))
        with conversion_webhook(connected.client):
            # Its garbage collector looks for new kinds, such as ours, when it starts, and then every 30 s.
            plane.stop_controller_manager()
            plane.start_controller_manager()
            yield connected


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.controlplane)])
def api_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    running = _real() if request.param == "real" else _embedded(tmp_path_factory.mktemp("embedded"))
    with running as server:
        yield server


@pytest.fixture
def space(api_server: ApiServer) -> Iterator[Space]:
    """A namespace of the test's own."""
    client = api_server.client
    made = client.create(NAMESPACES, "", {"metadata": {"generateName": "contract-"}}, decode)
    name = made["metadata"]["name"]
    yield Space(client, api_server.http, api_server.kubeconfig, name)
    client.delete(NAMESPACES, "", name)
