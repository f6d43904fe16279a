"""An operator that is killed amid its work, on both API servers; the test plays the kubelet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane
from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
from tests.support.operator_process import OperatorProcess
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.local.apiserver.server import EmbeddedApiServer


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Path]:
    with EmbeddedApiServer() as server:
        yield write_kubeconfig(tmp_path / "embedded", server.kubeconfig(), "default")


@pytest.fixture
def real(plane: ControlPlane, admin: Client) -> Path:
    """The session's control plane; `admin` has given it the CRD."""
    return plane.kubeconfig


@pytest.fixture(
    params=[pytest.param("embedded", marks=pytest.mark.journey), pytest.param("real", marks=pytest.mark.controlplane)]
)
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


def test_sigkill_while_creating_fifty_replicas_loses_and_doubles_nothing(kubeconfig: Path, tmp_path: Path) -> None:
    with Client(load_config(str(kubeconfig))) as client:
        cluster = Cluster(client)
        cluster.create_namespace()
        namespace = f"--namespace={cluster.namespace}"
        # So slow that the kill comes in time, however late it is.
        slow = ("--kube-api-qps=2", "--kube-api-burst=40")
        with OperatorProcess(kubeconfig, tmp_path, "killed", namespace, *slow) as operator:
            operator.wait_ready()
            cluster.submit(tfjob("big", Worker=50))
            eventually(lambda: len(cluster.pods()) >= 10, every=0.005, what="the first pods")
            operator.kill()
            assert len(cluster.pods()) < 50, "the kill came too late to prove anything"
        with OperatorProcess(kubeconfig, tmp_path, "successor", namespace) as operator:
            operator.wait_ready()
            cluster.wait_pods(50)
            eventually(lambda: len(cluster.services()) == 50, what="50 services")
            for name in cluster.pods():
                cluster.set_phase(name, "Running")
            cluster.wait_condition("big", "Running")
            names = {f"big-worker-{index}" for index in range(50)}
            assert set(cluster.pods()) == names == set(cluster.services())
