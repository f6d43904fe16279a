"""Elastic jobs on the embedded node: a user scales a running job."""

import re
import signal
import sys
from pathlib import Path

from tests.support import manifests
from tests.support.cli import Cli
from tests.support.eventually import eventually
from tests.support.local_cluster import cli, cluster
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.local.controlplane import ControlPlane

__all__ = ["cli", "cluster"]

SLEEPER = """
import json, os, signal, sys, time
config = json.loads(os.environ.get("TF_CONFIG") or '{"cluster": {"worker": [0]}, "task": {"index": 0}}')
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
workers, task = len(config["cluster"]["worker"]), config["task"]["index"]
print(f"worker {task} of {workers}", file=open(sys.argv[1], "a", 1), flush=True)
time.sleep(600)
"""


def test_scaling_a_running_job_gives_all_workers_the_new_number(
    cluster: ControlPlane, cli: Cli, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    container = {"name": "tensorflow", "image": "x", "command": [sys.executable, "-c", SLEEPER, str(notes)]}
    worker = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    job = manifests.job("scaled", {"Worker": worker})
    job["spec"]["elasticPolicy"] = {"maxReplicas": 3, "shrinkAfterSeconds": 2, "growAfterSeconds": 4}
    cluster.client.create(TFJOBS, "default", job, decode_tfjob)

    def begun(workers: int) -> bool:
        text = notes.read_text() if notes.exists() else ""
        return set(re.findall(rf"^worker (\d) of {workers}$", text, re.MULTILINE)) == {*map(str, range(workers))}

    def read() -> TFJob:
        return cluster.client.get(TFJOBS, "default", "scaled", decode_tfjob)

    eventually(lambda: begun(1), within=60, what="one worker runs")
    for workers in (3, 2):
        done = cli.run("scale", "scaled", "--workers", str(workers), code=0)
        assert "warning" not in done.stderr
        eventually(lambda workers=workers: begun(workers), within=60, what=f"{workers} workers run")
    refused = cli.run("scale", "scaled", "--workers", "4", code=1)
    assert "must be at least tfReplicaSpecs.Worker.replicas" in refused.stderr
    eventually(lambda: read().status.ready == "2/2", within=30, what="both are ready")
    status = read().status
    assert status.elastic is not None
    assert (status.elastic.workers, status.elastic.changes, status.elastic.reason) == (
        2,
        2,
        "the number of workers was set to 2",
    )
    shown = cli.run("describe", "scaled", code=0).stdout
    assert "from 1 to 3 workers, because there are nodes for 2 more" in shown
    costs = [(resize.before, resize.workers, resize.untrained_seconds) for resize in status.elastic.resizes]
    assert [cost[:2] for cost in costs] == [(1, 3), (3, 2)]
    assert all(cost is not None and 0 <= cost < 60 for *_, cost in costs), "each change shows its seconds"
    assert re.search(
        r"^Resized: +1 to 3 at .*: \d+ s without training; 3 to 2 at .*: \d+ s without", shown, re.MULTILINE
    )
    assert re.search(
        "^Workers: +2 since .*, because the number of workers was set to 2 \\(2 changes\\)$", shown, re.MULTILINE
    )


def test_a_running_run_is_scaled_by_its_name(tmp_path: Path) -> None:
    cli, notes = Cli(tmp_path), tmp_path / "notes"
    (tmp_path / "train.py").write_text(SLEEPER)

    def begun(workers: int) -> bool:
        text = notes.read_text() if notes.exists() else ""
        return set(re.findall(rf"^worker (\d) of {workers}$", text, re.MULTILINE)) == {*map(str, range(workers))}

    with cli.start("run", "train.py", "--workers", "1..4", "--", str(notes)) as run:
        eventually(lambda: notes.exists() and "worker 0" in notes.read_text(), within=60, what="the job runs")
        kubeconfig = next(tmp_path.glob(".tfoperator/runs/2*/kubeconfig"))
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        assert cli.run("scale", "latest", "--workers", "3", code=0).stdout == "tfjob.kubeflow.org/train scaled\n"
        eventually(lambda: begun(3), within=60, what="three workers run")
        refused = cli.run("scale", "latest", "--workers", "5", code=1)
        assert "must be at least tfReplicaSpecs.Worker.replicas" in refused.stderr
        run.end(signal.SIGINT)
    assert not kubeconfig.exists()
    over = cli.run("scale", "latest", "--workers", "2", code=1)
    assert "latest: this run is over (Interrupted), so its job can't be changed" in over.stderr
