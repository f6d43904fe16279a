"""A worker that is stopped by SIGSTOP: the job hangs, says so, names the worker, keeps stacks and trains on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli, CliProcess, container_process
from tfoperator.api.v1.types import decode_tfjob

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

LIMIT = 120.0  # seconds for what takes some ten on an idle machine
DEADLINE = 8  # seconds for which no busy machine keeps a program from printing a line

TRAIN = """
import json, os, pathlib, signal, time
from tfoperator.progress import stacks

task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
stacks.register()
checkpoint = pathlib.Path(f"checkpoint-{task}")
other = pathlib.Path(f"checkpoint-{1 - task}")
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
print(f"begins at step {step}", flush=True)

def step_of(path):
    try:
        return int(path.read_text() or 0)
    except FileNotFoundError:
        return 0

def wait_for_the_other(step):
    while step_of(other) < step:
        time.sleep(0.02)

while step < STEPS:
    wait_for_the_other(step)
    step += 1
    fresh = pathlib.Path(f"fresh-{task}")
    fresh.write_text(str(step))
    fresh.replace(checkpoint)
    print(f"step {step}", flush=True)
    if task == 0:
        time.sleep(0.05)
    while step == PAUSE and task == 1 and not os.path.exists("stopped"):
        time.sleep(0.02)
print("trained", flush=True)
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    yield Cli(tmp_path)
    marks = {path.parent.parent for path in tmp_path.glob("**/processes/*.json")}
    assert not marks, f"processes are left: {marks}"


def job(cli: Cli, *, steps: int = 15, pause: int = 10, **policy: Any) -> str:
    """Two workers that wait for each other in every step; worker 1 waits in one of them to be stopped."""
    (cli.folder / "train.py").write_text(TRAIN.replace("STEPS", str(steps)).replace("PAUSE", str(pause)))
    container = {"name": "tensorflow", "image": "none", "command": ["python", "-u", "train.py"]}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "hang"},
        "spec": {
            "runPolicy": {"progressDeadlineSeconds": DEADLINE, **policy},
            "successPolicy": "AllWorkers",
            "tfReplicaSpecs": {
                "Worker": {
                    "replicas": 2,
                    "restartPolicy": "OnFailure",
                    "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
                }
            },
        },
    }
    return cli.write(yaml.safe_dump(manifest))


def stop_worker_1(process: CliProcess, folder: Path) -> None:
    process.until("[worker-1] step 10", within=LIMIT)
    os.kill(container_process(folder / "kept", "hang-worker-1"), signal.SIGSTOP)


def stacks_of(folder: Path, worker: int) -> str:
    return (folder / f"kept/logs/default/hang-worker-{worker}/tensorflow/0.stacks.txt").read_text()


def test_a_stopped_worker_is_named_and_the_job_trains_on_from_its_checkpoint(cli: Cli) -> None:
    manifest = job(cli, onStall="Restart", backoffLimit=3)
    with cli.start("run", manifest, "--logs-dir", "kept") as process:
        stop_worker_1(process, cli.folder)
        process.until("Behind: worker-1.", within=LIMIT)
        (cli.folder / "stopped").touch()
        assert process.wait(LIMIT) == 0, process.output
    assert "wait_for_the_other" in stacks_of(cli.folder, 0)
    stopped = stacks_of(cli.folder, 1)
    assert "train.py" in stopped or "stopped" in stopped
    again = (cli.folder / "kept/logs/default/hang-worker-1/tensorflow/1.log").read_text()
    assert again.startswith("begins at step 10\n")
    assert again.endswith("step 15\ntrained\n")
    final = decode_tfjob(json.dumps(yaml.safe_load((cli.folder / "kept/default.hang.yaml").read_text())).encode())
    assert final.status.restarts == 1
    assert [c.status for c in final.status.conditions if c.type == "Stalled"] == ["False"]
    assert "Stalled" in (cli.folder / "kept/events.txt").read_text()


def test_a_job_that_is_to_fail_for_its_stall_says_why(cli: Cli) -> None:
    with cli.start("run", job(cli, onStall="Fail"), "--logs-dir", "kept") as process:
        stop_worker_1(process, cli.folder)
        assert process.wait(LIMIT) == 1, process.output
    assert f"has made no progress for {DEADLINE}s" in process.output
    assert "Behind: worker-1." in process.output
    assert "hang-worker-0/tensorflow/0.stacks.txt" in process.output
    result = json.loads((cli.folder / "kept/result.json").read_text())
    assert result["jobs"][0]["reason"] == "ProgressDeadlineExceeded"
    assert result["jobs"][0]["report"]["behind"] == ["worker-1"]


def test_a_run_whose_time_is_over_keeps_stacks(cli: Cli) -> None:
    manifest = job(cli, progressDeadlineSeconds=None)
    done = cli.run("run", manifest, "--logs-dir", "kept", "--timeout", "15s", timeout=LIMIT, code=124)
    assert "wait_for_the_other" in stacks_of(cli.folder, 0)
    assert "Stacks of its threads are kept:" in done.stdout
    assert "last line: step 1" in done.stdout


def test_a_job_that_goes_on_by_itself_has_stalled_for_a_while(cli: Cli) -> None:
    with cli.start("run", job(cli, steps=1_000_000), "--logs-dir", "kept") as process:
        stop_worker_1(process, cli.folder)
        process.until("Behind: worker-1.", within=LIMIT)
        (cli.folder / "stopped").touch()
        os.kill(container_process(cli.folder / "kept", "hang-worker-1"), signal.SIGCONT)
        process.until("makes progress again", within=LIMIT)
        assert process.end(signal.SIGINT) == 130
