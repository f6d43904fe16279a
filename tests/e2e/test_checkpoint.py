"""`spec.checkpoint` under `tfoperator run`: one directory for all replicas of a job, found again by its next run."""

import json
from pathlib import Path
from typing import Any

from tests.support.cli import Cli, replica, tfjob

# A chief that fails at its first attempt after it has saved something, and a worker that waits to see it.
CHIEF = 'cd "$TFOPERATOR_CHECKPOINT_DIR" && if [ -e model ]; then cat model; else echo resumed > model; exit 1; fi'
WORKER = 'until [ -e "$TFOPERATOR_CHECKPOINT_DIR/model" ]; do sleep 0.05; done'


def job(name: str, volume: dict[str, Any]) -> str:
    manifest = json.loads(tfjob(name, Chief=replica("sh", "-c", CHIEF), Worker=replica("sh", "-c", WORKER)))
    manifest["spec"]["checkpoint"] = {"volume": volume, "mountPath": "/nobody/can/mount/here"}
    return json.dumps(manifest)


def test_a_job_that_is_submitted_again_goes_on_and_another_does_not(tmp_path: Path) -> None:
    volume = {"hostPath": {"path": str(tmp_path / "shared"), "type": "DirectoryOrCreate"}}
    cli = Cli(tmp_path)
    (tmp_path / "job.yaml").write_text(job("mnist", volume))
    assert cli.run("run", "job.yaml").returncode == 1
    again = cli.run("run", "job.yaml", code=0)
    assert "[chief-0] resumed" in again.stdout
    assert (tmp_path / "shared/default/mnist/model").read_text() == "resumed\n"

    (tmp_path / "job.yaml").write_text(job("other", volume))
    assert cli.run("run", "job.yaml").returncode == 1


def test_a_claim_is_kept_in_the_run_directory(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    (tmp_path / "job.yaml").write_text(job("mnist", {"persistentVolumeClaim": {"claimName": "checkpoints"}}))
    codes = [cli.run("run", "job.yaml", "--logs-dir", "kept").returncode for _ in range(2)]
    assert codes == [1, 0]
