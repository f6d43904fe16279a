"""One embedded API server for many tests, each of which has a namespace to itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.jobs import JobWorld, LogBook, write_kubeconfig
from tests.support.threads import no_threads_left
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.local.apiserver.http.pod_streams import NodeStreams
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.sdk import TFJobClient


@dataclass(frozen=True)
class Served:
    server: EmbeddedApiServer
    api: Client
    logs: LogBook


class ServedWorld(JobWorld):
    """A namespace of the server, with a client for it and a kubeconfig that leads there."""

    def __init__(self, served: Served, folder: Path) -> None:
        super().__init__(served.api)
        self.server = served.server
        self.logs = served.logs
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", served.server.kubeconfig(), self.namespace)
        self.sdk = TFJobClient(namespace=self.namespace, client=served.api)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    logs = LogBook()
    with EmbeddedApiServer(node=NodeStreams(logs.read)) as server:
        kubeconfig = write_kubeconfig(tmp_path_factory.mktemp("served") / "kubeconfig", server.kubeconfig(), "default")
        with Client(load_config(str(kubeconfig))) as api:
            yield Served(server, api, logs)


@pytest.fixture(autouse=True)
def every_thread_ends() -> Iterator[None]:
    """But for a pool of the server, which stays."""
    with no_threads_left(but=("apiserver-log",)):
        yield


@pytest.fixture
def world(served: Served, tmp_path: Path) -> Iterator[ServedWorld]:
    world = ServedWorld(served, tmp_path)
    yield world
    world.logs.end_all()
