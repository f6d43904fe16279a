"""`tfoperator launch` as a process, in a cluster that runs its pods: the embedded control plane with its operator."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli
from tests.support.cluster import decode
from tests.support.eventually import eventually
from tests.support.local_cluster import cli, cluster
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.controlplane import ControlPlane

Launch = Callable[..., list[str]]

__all__ = ["cli", "cluster"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """Writes a component that runs a shell script, and returns the command that launches it."""

    def write(script: str, *arguments: str, platforms: Any = None, **more: Any) -> list[str]:
        container = {"image": "busybox:1.36", "command": ["sh", "-ec"], "args": [script]}
        pod = {"spec": {"terminationGracePeriodSeconds": 60}}  # more than the programs need
        document = {"name": "step", "container": container, "platforms": platforms or {"kubernetes": pod}, **more}
        (tmp_path / "component.yaml").write_text(yaml.safe_dump(document))
        return ["launch", "component.yaml", *arguments]

    return write


def pods(cluster: ControlPlane) -> list[str]:
    listed = cluster.client.list(PODS, "default", decode).items
    return [str(pod["metadata"]["name"]) for pod in listed]


def test_a_killed_launch_is_resumed(cli: Cli, launch: Launch, cluster: ControlPlane, tmp_path: Path) -> None:
    command = launch(f"echo first; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo second")
    with cli.start(*command) as process:
        process.until("first")
        process.end(signal.SIGKILL)
    before = pods(cluster)
    assert len(before) == 1
    refused = cli.run(*command)
    assert (refused.returncode, f"{before[0]} may still run" in refused.stderr) == (2, True)
    (tmp_path / "go").touch()
    done = cli.run(*command, "--resume")
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["second"]), done.stderr
    eventually(lambda: pods(cluster) == [], what="its pod is gone")


def test_a_tfjob_is_a_component(cli: Cli, launch: Launch, cluster: ControlPlane, tmp_path: Path) -> None:
    done = json.dumps({"outputs": {"model": {"uri": "/models/1"}}})
    # Worker 0 waits for the other: with its end the job has succeeded, and a worker that has not begun never begins.
    script = f"""
        echo $TF_CONFIG | grep -o '"index": *[0-9]' | tail -n 1
        case $TF_CONFIG in
            *'"index":0'*|*'"index": 0'*)
                until [ -e {tmp_path}/one ]; do sleep 0.05; done
                echo '{done}' > {{{{ exec_props.tmp_path }}}}/output.json;;
            *) touch {tmp_path}/one;;
        esac
    """
    job = {"replicas": {"Worker": 2}, "spec": {"runPolicy": {"cleanPodPolicy": "None"}}}
    command = launch(script, "--output", "model=/old", platforms={"tfjob": job}, outputs=["model"])
    launched = cli.run(*command)

    assert launched.returncode == 0, launched.stderr
    assert {line.split("]")[0] for line in launched.stdout.splitlines()} == {"[worker-0", "[worker-1"}, launched
    assert "model: /models/1" in launched.stderr
    eventually(lambda: list(cluster.client.list(TFJOBS, "default", decode).items) == [])
    eventually(lambda: pods(cluster) == [])


def test_a_tfjob_that_fails_or_is_cancelled_leaves_nothing(cli: Cli, launch: Launch, cluster: ControlPlane) -> None:
    job = {"tfjob": {"replicas": {"Worker": 2}}}
    done = cli.run(*launch("exit 3", platforms=job), code=1)
    assert "step failed" in done.stderr
    with cli.start(*launch("echo ready; exec sleep 100", platforms=job)) as process:
        process.until("[worker-1] ready")
        process.signal(signal.SIGINT)
        assert process.wait(90) == 130
    eventually(lambda: list(cluster.client.list(TFJOBS, "default", decode).items) == [])
    eventually(lambda: pods(cluster) == [])


@pytest.mark.tensorflow
def test_the_example_of_a_step_trains_on_two_workers(cli: Cli, cluster: ControlPlane, tmp_path: Path) -> None:
    example = str(ROOT / "examples/launcher/train.yaml")
    arguments = ["--output", f"model={tmp_path}/model", "--param", "minibatches=60"]
    done = cli.run("launch", example, *arguments, timeout=300, code=0)
    assert "[worker-1] accuracy on held-out samples" in done.stdout
    assert list((tmp_path / "model").iterdir())
    eventually(lambda: pods(cluster) == [])


def test_the_example_of_a_pipeline_shows_what_it_would_launch(cli: Cli, tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "examples/launcher/pipeline.py"), "dry-run"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert "kind: Pod" in done.stdout
    assert "containers.create:" in done.stdout
