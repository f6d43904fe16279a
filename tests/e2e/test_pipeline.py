"""`tfoperator pipeline` as a process, on a control plane whose pods run."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.cluster import decode
from tests.support.eventually import eventually
from tests.support.local_cluster import cli, cluster
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.controlplane import ControlPlane

__all__ = ["cli", "cluster"]

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
DIGITS = str(ROOT / "examples/pipeline/digits.py")

PIPELINE = """
from tfoperator.launcher import ExecutorContainerSpec, KubernetesPodPlatformConfig, TFJobPlatformConfig
from tfoperator.pipeline import BaseComponent, ChannelParameter, Pipeline, make_spec_class

class Wait(BaseComponent):
    SPEC_CLASS = make_spec_class(outputs={"out": ChannelParameter(type="Text")})
    EXECUTOR_SPEC = ExecutorContainerSpec("example.invalid/x:1", ["sh", "-c"], [
        "trap 'echo saved; exit 0' TERM; echo ready; while ! test -e GO; do sleep 0.05; done;"
        " echo went on; echo {{ outputs.out.uri }} > {{ outputs.out.uri }}"])

def create_pipeline():
    return Pipeline("waiting", "root", [Wait()])

PLATFORMS = {"pods": {"default": [KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 20})]},
             "jobs": {"default": [TFJobPlatformConfig({"Worker": 2})]}}
"""


def objects(cluster: ControlPlane, resource: Any = PODS) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.client.list(resource, "default", decode).items]


def states(report: str) -> dict[str, str]:
    return {step["name"]: step["state"] for step in json.loads(report)["steps"]}


@pytest.mark.journey
def test_the_example_runs_once_is_cached_and_then_runs_what_another_parameter_changes(
    cli: Cli, cluster: ControlPlane, tmp_path: Path
) -> None:
    image = "image=example.invalid/steps@sha256:" + "0" * 64
    command = ["pipeline", "run", DIGITS, "--platform", "kubernetes", "--param", image, "--param", f"root={tmp_path}/r"]
    first = cli.run(*command, timeout=300, code=0)
    assert "[Train.distributed] [worker-1] replica 1 of 2" in first.stdout
    assert "[Evaluate] accuracy on held-out samples" in first.stdout
    second = cli.run(*command, "-o", "json", timeout=300, code=0)
    assert set(states(second.stdout).values()) == {"cached"}
    third = cli.run(*command, "-o", "json", "--param", "alpha=0.01", timeout=300, code=0)
    assert states(third.stdout) == {
        "Data": "cached", "Train.single": "cached", "Train.distributed": "succeeded", "Evaluate": "succeeded"
    }  # fmt: skip
    assert objects(cluster) == objects(cluster, TFJOBS) == []

    report = next(step for step in json.loads(third.stdout)["steps"] if step["name"] == "Evaluate")
    uri = report["outputs"]["report"][0]["uri"]
    assert json.loads(Path(uri).read_text()) == report["outputs"]["report"][0]["properties"]
    tree = json.loads(cli.run("pipeline", "lineage", uri, "-o", "json", code=0).stdout)
    made_by = {
        artifact["artifact"]["type"]: [e["parameters"] for e in artifact["executions"]]
        for artifact in tree["artifacts"]
    }
    assert made_by["Examples"] == [{"seed": 1}]
    assert {e["parameters"]["alpha"] for artifact in tree["artifacts"][1:] for e in artifact["executions"]} == {
        0.0001,
        0.01,
    }
    log = cli.run("pipeline", "logs", "latest", "Evaluate", code=0)
    assert "accuracy" in log.stdout


@pytest.mark.parametrize(("number", "platform"), [(signal.SIGTERM, "pods"), (signal.SIGINT, "jobs")])
def test_a_signal_stops_what_runs_and_the_run_can_go_on(
    cli: Cli, cluster: ControlPlane, tmp_path: Path, number: signal.Signals, platform: str
) -> None:
    (tmp_path / "wait.py").write_text(PIPELINE.replace("GO", str(tmp_path / "go")))
    command = ["pipeline", "run", "wait.py", "--platform", platform]
    with cli.start(*command) as process:
        process.until("ready")
        process.signal(number)
        assert process.wait(60) == 128 + number
        assert "--resume" in process.output
    eventually(lambda: objects(cluster) == objects(cluster, TFJOBS) == [], within=60)
    assert json.loads(cli.run("pipeline", "show", "latest", "-o", "json", code=0).stdout)["state"] == "cancelled"
    (tmp_path / "go").touch()
    done = cli.run(*command, "--resume", "latest", code=0)
    assert "went on" in done.stdout


def test_what_a_killed_runner_has_left_is_shown_and_stopped_in_order(
    cli: Cli, cluster: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "wait.py").write_text(PIPELINE.replace("GO", str(tmp_path / "go")))
    with cli.start("pipeline", "run", "wait.py", "--platform", "pods") as process:
        process.until("ready")
        process.end(signal.SIGKILL)
    assert len(objects(cluster)) == 1
    assert "interrupted" in cli.run("pipeline", "runs", code=0).stdout
    refused = cli.run("pipeline", "clean", "latest", code=2)
    assert "pipeline stop" in refused.stderr
    assert "is cancelled" in cli.run("pipeline", "stop", "latest", code=0).stdout
    assert objects(cluster) == []
    assert "cancelled" in cli.run("pipeline", "show", "latest", code=0).stdout
    cli.run("pipeline", "clean", "latest", code=0)
    assert "there are no pipeline runs" in cli.run("pipeline", "runs", code=0).stderr


def test_kills_at_random_moments_leave_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    """A handful; `python -m hack.pipeline_kills` does fifty."""
    command = [sys.executable, "-m", "hack.pipeline_kills", "--moments", "4", "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "4 moments, 0 with problems"
