"""The cluster-arguments example under `tfoperator run`: between-graph replication that knows nothing of TF_CONFIG."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds; it takes 15 on an idle machine of 2 cores


def test_a_program_that_reads_its_cluster_from_arguments_trains(tmp_path: Path) -> None:
    done = Cli(ROOT).run(
        "run", "examples/cluster-arguments/tfjob.yaml", "--logs-dir", str(tmp_path), timeout=LIMIT, code=0
    )
    accuracy = re.search(r"\[worker-0\] accuracy on held-out samples: (\d\.\d+)", done.stdout)
    assert accuracy, done.stdout
    assert float(accuracy[1]) >= 0.85
    result = json.loads((tmp_path / "result.json").read_text())
    states = {replica["name"]: replica["state"] for replica in result["jobs"][0]["replicas"]}
    assert states == {"ps-0": "Stopped", "worker-0": "Succeeded", "worker-1": "Succeeded"}
    assert "[worker-1] step 300/300" in done.stdout
