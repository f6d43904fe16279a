"""A training that saves with `tfoperator.progress.Saving` on a real node: what an end at a random moment costs it.

`TFOPERATOR_ENDS=30` makes so many ends.
"""

import os
from pathlib import Path

import pytest

from tests.support.in_cluster import ROOT, TRAINING_IMAGE, InCluster, packages_volume
from tests.support.random_ends import Training, check, random_ends

ENDS = int(os.environ.get("TFOPERATOR_ENDS", "7"))
ANNOUNCED = ("delete", "evict", "suspend", "scale", "drain")

pytestmark = pytest.mark.timeout(240 + 60 * ENDS)


def test_what_is_announced_costs_no_step_and_what_is_not_one_interval_at_most(
    namespace: InCluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    packages, mount = packages_volume()
    volumes = {"source": ROOT, "kept": tmp_path}

    def begin(name: str) -> Training:
        training = Training(namespace.kubectl, namespace.namespace, tmp_path, name)
        training.start(
            {
                "image": TRAINING_IMAGE,
                "env": [{"name": "PYTHONPATH", "value": f"{ROOT}:/packages"}],
                "volumeMounts": [mount, *({"name": name, "mountPath": str(path)} for name, path in volumes.items())],
            },
            volumes=[packages, *({"name": name, "hostPath": {"path": str(path)}} for name, path in volumes.items())],
        )
        return training

    costs = random_ends(begin, [*ANNOUNCED, "kill"], ENDS, seed=32)
    check(costs, ENDS)
