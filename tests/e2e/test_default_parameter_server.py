"""Parameter servers without a template under `tfoperator run`: the stock one serves real training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import Cli

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds; it takes 15 on an idle machine of 2 cores


def test_the_stock_parameter_servers_serve_until_the_job_is_over(tmp_path: Path) -> None:
    example = "examples/default-parameter-server/tfjob.yaml"
    done = Cli(ROOT).run("run", example, "--logs-dir", str(tmp_path), timeout=LIMIT, code=0)
    assert "[ps-1] parameter server 1 serves" in done.stdout
    assert "[chief-0] accuracy on held-out samples" in done.stdout
    result = json.loads((tmp_path / "result.json").read_text())
    servers = {r["name"]: (r["state"], r["exitCode"]) for r in result["jobs"][0]["replicas"] if r["name"][:2] == "ps"}
    assert servers == {"ps-0": ("Stopped", 143), "ps-1": ("Stopped", 143)}
