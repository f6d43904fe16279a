"""Pipelines that `kfp` itself has compiled, run as processes: their output equals the output of its local runner."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from hack import strangers
from tests.support.cli import Cli
from tfoperator.launcher import LaunchContext, ProcessPlatformConfig
from tfoperator.pipeline import AS_PROCESSES, Home, PipelineFailed, PipelineResult, PipelineRunner
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.pipeline_file import load_pipeline_file

pytestmark = pytest.mark.timeout(900)  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/contract/strangers/kfp_pipelines.py"


def run(folder: Path, file: Path, packages: str) -> PipelineResult:
    loaded = load_pipeline_file(str(file))
    assert isinstance(loaded.pipeline, Graph)
    configs = {**loaded.platform_configs("", "process"), "default": [ProcessPlatformConfig({"PYTHONPATH": packages})]}
    runner = PipelineRunner(AS_PROCESSES, configs, home=folder / "home", parallel=2, context=LaunchContext())
    return runner.run(loaded.pipeline)


def test_ten_pipelines_of_kfp_put_out_what_its_own_runner_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "known").write_text("one\ntwo\nthree\n")
    python = strangers.find(strangers.KFP)
    command = [python, SCRIPT, tmp_path, tmp_path / "known"]
    path = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=path, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    theirs = json.loads((tmp_path / "found.json").read_text())
    packages = str(next(python.parents[1].glob("lib/python*/site-packages")))
    ours, states = {}, set[str]()
    for name in theirs:
        result = run(tmp_path, tmp_path / f"{name}.yaml", packages)
        states |= {str(view.state) for view in result.steps.values()}
        with Home(tmp_path / "home").store() as store:
            executions = store.executions(result.run_id)
        last = {
            "conditional": "condition-branches-1.condition-2.greet",
            "artifacts": "look",
            "loop": "total",
            "members": "total",
            "nested": "inner-3.add-2",
            "importer": "count",
            "retries": "add",
            "optional": "add-2",
            "sequential": "greet",
        }[name]
        ours[name] = executions[last].outputs["Output"][0].properties["value"]
    assert ours == theirs
    assert "for-loop-1.add" in Cli(tmp_path).run("pipeline", "graph", "loop.yaml", code=0).stdout
    assert states == {"succeeded", "left out"}
    with pytest.raises(PipelineFailed, match="RuntimeError: boom") as failed:
        run(tmp_path, tmp_path / "exits.yaml", packages)
    assert {name: str(view.state) for name, view in failed.value.result.steps.items()} == {
        "exit-handler-1.fail": "failed",
        "last": "succeeded",
    }
    again = run(tmp_path, tmp_path / "artifacts.yaml", packages)
    assert {str(view.state) for view in again.steps.values()} == {"cached"}
