"""One cluster with a real node for the whole session, and the operator in it, deployed by its manifests."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.go_operator import USERS, GoOperator
from tests.support.in_cluster import InCluster, prometheus_image, shell_image, training_image, volume_of
from tests.support.kubectl import write_overlay
from tests.support.operator_image import operator_image

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the chart's own tests first, and the files that train with TensorFlow last.

    The objects of the chart's tests have the same names as the objects that `deployed` leaves behind. The trainings
    come last, because the other workers of pytest begin with their own trainings, which need most of the processor. The
    first test waits until the image is built and the cluster is started.
    """
    places = [place for place, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    ours = [items[place] for place in places]
    trains = {item.path for item in ours if item.get_closest_marker("tensorflow")}
    first = Path(__file__).with_name("test_helm.py")
    ours.sort(key=lambda item: (item.path != first, item.path in trains))
    for place, item in zip(places, ours, strict=True):
        items[place] = item
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def operator_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's image, built once, as an archive."""
    return operator_image(tmp_path_factory.mktemp("image") / "tfoperator.tar")


@pytest.fixture(scope="session")
def node_cluster(operator_archive: Path) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="tfo-cluster-") as folder:
        cluster = Cluster(Path(folder) / "cluster", users=USERS)
        cluster.start()
        try:
            cluster.load_image(operator_archive)
            for make in (shell_image, training_image, prometheus_image):
                archive = make(Path(folder, "image.tar"))
                cluster.load_image(archive)
                archive.unlink()
            yield cluster
        finally:
            cluster.stop()


COMPONENTS = ("progress", "log-archive", "stall-stacks")
"""Components of most tests' operator beside the base: jobs that don't ask for them notice nothing."""


@pytest.fixture(scope="session")
def archive() -> Iterator[Path]:
    """The folder of the node that is the log archive's volume."""
    with tempfile.TemporaryDirectory(prefix="tfo-archive-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture(scope="session")
def deployed(node_cluster: Cluster, archive: Path, tmp_path_factory: pytest.TempPathFactory) -> InCluster:
    """The namespace of the operator, which is applied as an administrator does it and ready."""
    folder = tmp_path_factory.mktemp("system")
    system = InCluster(node_cluster, "tfoperator-system", folder)
    write_overlay(folder, ["overlays/cluster"], COMPONENTS)
    claim = next(obj for obj in system.kustomized(folder) if obj["kind"] == "PersistentVolumeClaim")
    system.apply(volume_of(claim, archive))
    system.kubectl("apply", "-k", str(folder))
    system.wait_operator()
    return system


@pytest.fixture
def namespace(deployed: InCluster, tmp_path: Path) -> Iterator[InCluster]:
    """A namespace for one test."""
    team = InCluster(deployed.cluster, f"team-{next(_numbers)}", tmp_path)
    team.kubectl("create", "namespace", team.namespace)
    yield team
    print(team.kubectl("get", "pods,tfjobs", "-o", "wide"))
    team.kubectl("delete", "namespace", team.namespace, "--wait=false")


@pytest.fixture
def peer(deployed: InCluster) -> Iterator[GoOperator]:
    """The Go operator, in the place of this operator."""
    deployed.kubectl("scale", "deployment/tfoperator", "--replicas=0")
    try:
        eventually(lambda: not deployed.list("pods"), within=120, every=1, what="this operator is gone")
        with GoOperator(deployed.cluster.plane) as peer:
            peer.start()
            yield peer
    finally:
        deployed.kubectl("scale", "deployment/tfoperator", "--replicas=2")
        deployed.wait_operator()
