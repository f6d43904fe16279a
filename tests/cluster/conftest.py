"""One cluster with a real node for the whole session, and the operator in it, deployed as its manifests say."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster import Cluster
from tests.support.in_cluster import InCluster, prometheus_image, shell_image, training_image
from tests.support.operator_image import operator_image

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def node_cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="tfo-cluster-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        cluster.start()
        try:
            for make in (shell_image, training_image, prometheus_image, operator_image):
                archive = make(Path(folder, "image.tar"))
                cluster.load_image(archive)
                archive.unlink()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="session")
def deployed(node_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> InCluster:
    """The namespace of the operator, which is applied as an administrator does it and ready."""
    system = InCluster(node_cluster, "tfoperator-system", tmp_path_factory.mktemp("system"))
    system.kubectl("apply", "-k", str(Path(__file__).parents[2] / "manifests/overlays/cluster"))
    system.kubectl("rollout", "status", "deployment/tfoperator", "--timeout=100s", timeout=120)
    return system


@pytest.fixture
def namespace(deployed: InCluster, tmp_path: Path) -> Iterator[InCluster]:
    """A namespace for one test."""
    one = InCluster(deployed.cluster, f"team-{next(_numbers)}", tmp_path)
    one.kubectl("create", "namespace", one.namespace)
    yield one
    print(one.kubectl("get", "pods,tfjobs", "-o", "wide"))
    one.kubectl("delete", "namespace", one.namespace, "--wait=false")
