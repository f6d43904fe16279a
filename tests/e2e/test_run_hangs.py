"""Workers that a run names: a worker that stops, so that the job hangs, and a worker that is slower than the others."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.test_run_fast import cli
from tests.support.cli import Cli, CliProcess, container_process, replica, tfjob
from tests.support.eventually import eventually
from tfoperator.api.v1.parts.run_policy import LEAST_PROGRESS_DEADLINE
from tfoperator.api.v1.types import decode_tfjob

__all__ = ["cli"]

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

LIMIT = 120.0  # seconds for what takes some ten on an idle machine
DEADLINE = LEAST_PROGRESS_DEADLINE  # seconds

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


def job(cli: Cli, *, steps: int = 15, pause: int = 10, **policy: Any) -> str:
    """Two workers that wait for each other in every step; worker 1 waits in one of them to be stopped."""
    (cli.folder / "train.py").write_text(TRAIN.replace("STEPS", str(steps)).replace("PAUSE", str(pause)))
    worker = replica("python", "-u", "train.py", replicas=2, restart="OnFailure", grace=1)
    policy = {"progressDeadlineSeconds": DEADLINE, **policy}
    return cli.write(tfjob("hang", clean="", run_policy=policy, spec={"successPolicy": "AllWorkers"}, Worker=worker))


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
    assert [c.status for c in final.status.operator_conditions if c.type == "Stalled"] == ["False"]
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
    assert "The stacks of its threads are kept:" in done.stdout
    assert "in wait_for_the_other" in done.stdout
    assert "last line: step 1" in done.stdout


FOUND_WITHIN = 60.0  # seconds

THROTTLED = """
import json, os, pathlib, time
from tfoperator.progress import Progress

task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
throttled = pathlib.Path("throttled")  # since when
again = throttled.exists()
began = time.monotonic()
with Progress() as progress:
    step = 0
    while not os.path.exists("over"):
        time.sleep(0.05)
        if task == 2 and not again and time.monotonic() - began > 20:
            if not throttled.exists():
                fresh = pathlib.Path("fresh")
                fresh.write_text(str(time.time()))
                fresh.replace(throttled)
            time.sleep(0.06)
        step += 1
        progress.update(step)
        if again and step == 100:
            pathlib.Path("trains-again").touch()
"""


def test_a_throttled_worker_is_found_and_made_anew(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(THROTTLED)
    worker = replica("python", "-u", "train.py", replicas=4, restart="OnFailure", grace=1)
    policy = {"onStraggler": "Restart"}
    job = tfjob("slow", clean="", run_policy=policy, spec={"progress": {}}, Worker=worker)
    with cli.start("run", cli.write(job), "--logs-dir", "kept") as process:
        eventually((tmp_path / "throttled").exists, within=LIMIT, what="the throttling")
        process.until("their replica type: worker-2.", within=LIMIT)
        took = time.time() - float((tmp_path / "throttled").read_text())
        assert took < FOUND_WITHIN, f"found after {took:.0f} s"
        eventually((tmp_path / "trains-again").exists, within=LIMIT, what="the worker made anew")
        (tmp_path / "over").touch()
        assert process.wait(LIMIT) == 0, process.output
    final = decode_tfjob(json.dumps(yaml.safe_load((tmp_path / "kept/default.slow.yaml").read_text())).encode())
    assert final.status.restarts == 1
    assert [key.partition("/")[0] for key in final.status.node_failures] == ["worker-2"]
    assert [condition.status for condition in final.status.operator_conditions if condition.type == "Straggling"] == [
        "False"
    ]
    events = (tmp_path / "kept/events.txt").read_text()
    assert events.count(" Straggling ") == events.count(" NodeAvoided ") == 1, events
    print(f"found after {took:.0f} s")
