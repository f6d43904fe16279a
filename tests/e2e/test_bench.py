"""The benchmark at a very small scale: its figures are there, and a correct run is not refused."""

import json
from pathlib import Path

import pytest

from hack.bench.contestants import CONTESTANTS
from hack.bench.loads import Load
from hack.bench.report import table, to_json
from hack.bench.run import run

pytestmark = pytest.mark.controlplane

FINISHING = Load("finish", jobs=5, finishes=True)
STAYING = Load("medium", jobs=5, idle_seconds=1)


def test_our_operator_finishes_a_small_load_within_its_limits_of_calls_and_memory() -> None:
    result = run(CONTESTANTS["ours"], FINISHING, 0, print)
    assert not result.complaints
    figures = result.figures
    # 3 services, 3 pods, 2 deletions, and some status writes and events.
    assert 9 <= figures["calls"] <= 17, result.calls
    assert figures["done_s"] > 5, "the workers run for 5 s"
    assert figures["cpu_ms"] > 0
    assert figures["api_cpu_ms"] > 0
    assert 10 < figures["rss_mib"] <= figures["peak_mib"] < 90


def test_the_floor_makes_what_a_controller_would_make(tmp_path: Path) -> None:
    result = run(CONTESTANTS["floor"], STAYING, 0, print)
    assert not result.complaints
    assert result.figures["calls"] == 7, "3 services, 3 pods, one status"
    assert result.calls == {"create pods": 15, "create services": 15, "patch tfjobs/status": 5}
    assert "refused" not in table([result])
    assert json.loads(json.dumps(to_json([result], {})))["runs"][0]["complaints"] == []
