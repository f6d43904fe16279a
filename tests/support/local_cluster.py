"""A control plane of this process whose pods are processes, and the command line that talks to it: fixtures.

A test file imports both by name.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.jobs import write_kubeconfig
from tests.support.threads import no_threads_left
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.runtime.selection import RuntimeOptions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with no_threads_left():
        plane = ControlPlane(tmp_path_factory.mktemp("plane"), pods=RuntimeOptions(work_dir=ROOT))
        plane.start()
        yield plane
        plane.stop()


@pytest.fixture
def cli(cluster: ControlPlane, tmp_path: Path) -> Cli:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", cluster.endpoint.kubeconfig(), "default")
    return Cli(tmp_path, KUBECONFIG=str(kubeconfig))
