"""Four workers, each with steps of its own, of which one is throttled: it is named and made anew, the alarm is over."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from tests.support.cli import Cli
from tests.support.eventually import eventually
from tfoperator.api.v1.types import decode_tfjob

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

FOUND_WITHIN = 60.0
LIMIT = 120.0  # seconds for what takes some ten on an idle machine

TRAIN = """
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


def test_a_throttled_worker_is_found_and_made_anew(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    container = {"name": "tensorflow", "image": "none", "command": ["python", "-u", "train.py"]}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    worker = {"replicas": 4, "restartPolicy": "OnFailure", "template": {"spec": pod}}
    spec = {"progress": {}, "runPolicy": {"onStraggler": "Restart"}, "tfReplicaSpecs": {"Worker": worker}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "slow"}, "spec": spec}
    with cli.start("run", cli.write(yaml.safe_dump(job)), "--logs-dir", "kept") as process:
        eventually((tmp_path / "throttled").exists, within=LIMIT, what="the throttling")
        process.until("worker-2 (", within=LIMIT)
        took = time.time() - float((tmp_path / "throttled").read_text())
        assert took < FOUND_WITHIN, f"found after {took:.0f} s"
        eventually((tmp_path / "trains-again").exists, within=LIMIT, what="the worker made anew")
        (tmp_path / "over").touch()
        assert process.wait(LIMIT) == 0, process.output
    final = decode_tfjob(json.dumps(yaml.safe_load((tmp_path / "kept/default.slow.yaml").read_text())).encode())
    assert final.status.restarts == 1
    assert [key.partition("/")[0] for key in final.status.node_failures] == ["worker-2"]
    assert [one.status for one in final.status.conditions if one.type == "Straggling"] == ["False"]
    events = (tmp_path / "kept/events.txt").read_text()
    assert events.count(" Straggling ") == events.count(" NodeAvoided ") == 1, events
    print(f"found after {took:.0f} s")
