"""A training that saves with `tfoperator.progress.Saving` on a laptop: what an end at a random moment costs it.

`TFOPERATOR_ENDS=200` makes so many ends.
"""

import os
from pathlib import Path

import pytest

from tests.support.jobs import write_kubeconfig
from tests.support.kubectl import Kubectl
from tests.support.local_cluster import cluster
from tests.support.random_ends import Training, check, random_ends
from tfoperator.local.controlplane import ControlPlane

__all__ = ["cluster"]

ENDS = int(os.environ.get("TFOPERATOR_ENDS", "12"))
ANNOUNCED = ("delete", "evict", "suspend", "scale")

pytestmark = pytest.mark.timeout(120 + 20 * ENDS)


def test_what_is_announced_costs_no_step_and_what_is_not_one_interval_at_most(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    kubectl = Kubectl(write_kubeconfig(tmp_path / "kubeconfig", cluster.endpoint.kubeconfig(), "default"), "default")

    def begin(name: str) -> Training:
        training = Training(kubectl, "default", tmp_path, name)
        training.start({"image": "example.com/train:1"})
        return training

    costs = random_ends(begin, [*ANNOUNCED, "kill"], ENDS, seed=32)
    check(costs, ENDS)
