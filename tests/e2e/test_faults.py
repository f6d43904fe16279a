"""A handful of fault plans (hack/faults) on both API servers; the thousand others are played by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane
from hack.faults.injection import servers
from hack.faults.injection.servers import Server
from hack.faults.runner import Result, play
from tfoperator.kube.client import Client

EMBEDDED_SEEDS = (133, 305, 158, 188, 7, 10131, 35008, 35054)
"""Seeds that have found something, some that kill, pause and cut, a stall, and two whose workers fail for good.

The first has a gang of one kind, the second of the other, both with TensorBoards."""

REAL_SEEDS = (2, 4, 11, 36)
"""The third has a TensorBoard, the last stalls. There are no gangs: others want this control plane without them."""


@pytest.fixture(scope="module")
def embedded() -> Iterator[Server]:
    with servers.embedded() as server:
        yield server


@pytest.fixture
def real(plane: ControlPlane, admin: Client) -> Iterator[Server]:
    """The session's control plane; `admin` has given it the CRD."""
    with servers.real(plane) as server:
        yield server


PATIENCE = 120.0
"""Seconds: twice what is enough where plans are played alone. A plan comes to rest twice."""

pytestmark = pytest.mark.timeout(2 * PATIENCE + 60)


def assert_fine(result: Result) -> None:
    print("\n".join(result.history))
    assert [str(violation) for violation in result.violations] == []


@pytest.mark.parametrize("seed", EMBEDDED_SEEDS)
def test_nothing_is_lost_doubled_or_stuck_on_the_embedded_server(embedded: Server, seed: int, tmp_path: Path) -> None:
    assert_fine(play(seed, embedded, tmp_path, patience=PATIENCE))


@pytest.mark.controlplane
@pytest.mark.parametrize("seed", REAL_SEEDS)
def test_nothing_is_lost_doubled_or_stuck_on_a_real_api_server(real: Server, seed: int, tmp_path: Path) -> None:
    assert_fine(play(seed, real, tmp_path, patience=PATIENCE))
