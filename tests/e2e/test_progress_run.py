"""`tfoperator run`: programs report their progress, and the job's last status has it."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli, replica, tfjob

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]


def job(name: str, program: str, *, replicas: int = 1, **spec: Any) -> str:
    return tfjob(name, spec=spec, Worker=replica(sys.executable, "-c", program, replicas=replicas))


def final_progress(run_dir: Path, name: str) -> dict[str, Any]:
    status = yaml.safe_load((run_dir / f"default.{name}.yaml").read_text())["status"]
    assert status["phase"] == "Succeeded"
    progress: dict[str, Any] = status["progress"]
    return progress


def metrics(progress: dict[str, Any]) -> dict[str, str]:
    return {metric["name"]: metric["value"] for metric in progress["metrics"]}


@pytest.mark.tensorflow
def test_keras_reports_by_a_callback_and_nothing_else(tmp_path: Path) -> None:
    example = str(ROOT / "examples/progress/tfjob.yaml")
    done = Cli(ROOT).run("run", example, "--logs-dir", str(tmp_path / "kept"), timeout=180, code=0)
    progress = final_progress(tmp_path / "kept", "progress")
    assert (progress["completion"], progress["step"], progress["totalSteps"]) == ("100%", 440, 440)
    assert float(metrics(progress)["val_accuracy"]) > 0.9
    assert {"loss", "accuracy", "val_loss"} <= set(metrics(progress))
    assert "progress: 100%, step 440 of 440, loss 0." in done.stdout


LOOP = """
from tfoperator.progress import Progress, flush
with Progress(total_steps=40) as progress:
    for step in range(40):
        progress.advance(loss=1 / (step + 1))
assert flush(), "the last report has not arrived"
"""

QUIET = """
import os, ssl, sys, threading
import tfoperator.progress
from tfoperator.progress import report
assert not report(step=1, total_steps=2, loss=0.5)
assert not [name for name in os.environ if name.startswith("KUBEFLOW_TRAINER")], os.environ
assert threading.active_count() == 1
assert not {"msgspec", "kubernetes", "aiohttp"} & set(sys.modules)
"""


def test_every_replica_may_report_and_who_does_not_ask_is_told_nothing(tmp_path: Path) -> None:
    jobs = (
        job("loop", LOOP, replicas=3, progress={}, successPolicy="AllWorkers"),
        job("unset", QUIET),
        job("off", QUIET, progress={"enabled": False}),
    )
    cli = Cli(tmp_path, PYTHONPATH=str(ROOT))
    cli.run("run", cli.write(*jobs), "--logs-dir", "kept", timeout=120, code=0)
    progress = final_progress(tmp_path / "kept", "loop")
    assert (progress["replica"], progress["completion"], progress["step"]) == ("worker-0", "100%", 40)
    # A worker that has ended is not behind any more, so the order of their ends decides which are still named.
    assert {worker["step"] for worker in progress.get("behind", ())} <= {40}
    assert {worker["name"] for worker in progress.get("behind", ())} <= {f"worker-{index}" for index in range(3)}
    for name in ("unset", "off"):
        status = yaml.safe_load((tmp_path / "kept" / f"default.{name}.yaml").read_text())["status"]
        assert (status["phase"], status.get("progress")) == ("Succeeded", None)
