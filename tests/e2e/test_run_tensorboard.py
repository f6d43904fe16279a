"""`spec.tensorBoard` on one machine: a real TensorBoard whose page answers, under `tfoperator run` and `local up`."""

import http.client
import json
import os
import re
import shlex
import signal
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli, CliProcess, local_cli, replica, tfjob
from tests.support.eventually import eventually
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
LIMIT = 90  # seconds until TensorBoard serves; it takes 6 on an idle machine of 2 cores


def get(url: str) -> str:
    """A page's text; "" if nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError):
        return ""


def with_board(name: str, log_dir: Path, *command: str) -> str:
    """A job of one worker that runs a command, with a TensorBoard that looks at a directory of this machine."""
    manifest: dict[str, Any] = json.loads(tfjob(name, Worker=replica(*command)))
    manifest["spec"]["tensorBoard"] = {
        "logDir": "/nobody/mounts/here/mine",
        "volumes": [{"name": "logs", "hostPath": {"path": str(log_dir), "type": "DirectoryOrCreate"}}],
        "volumeMounts": [{"name": "logs", "mountPath": "/nobody/mounts/here"}],
    }
    return json.dumps(manifest)


def board_process(run_dir: Path) -> int:
    """The process id of the TensorBoard, from the agent's records; 0 if there is none."""
    for record in (run_dir / "processes").glob("*.json"):
        with suppress(FileNotFoundError):  # its process has ended meanwhile
            if "-tensorboard-" in record.read_text():
                return int(record.stem)
    return 0


def test_the_page_and_the_curves_can_be_seen_while_the_example_trains(tmp_path: Path) -> None:
    job = yaml.safe_load((ROOT / "examples/tensorboard/tfjob.yaml").read_text())
    container = job["spec"]["tfReplicaSpecs"]["Chief"]["template"]["spec"]["containers"][0]
    container["command"] += ["--epochs=100000", "--pause=0.2"]
    job["spec"]["tensorBoard"] |= {
        "env": [{"name": "AWS_REGION", "value": "eu-west-1"}],
        "nodeSelector": {"disk": "fast"},  # passed over, as are the others
        "serviceAccountName": "reader",
        "securityContext": {"fsGroup": 1000},
        "imagePullSecrets": [{"name": "registry"}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    (tmp_path / "tfjob.yaml").write_text(yaml.safe_dump_all([account, job]))
    run_dir = tmp_path / "run"
    with Cli(ROOT).start("run", str(tmp_path / "tfjob.yaml"), "--logs-dir", str(run_dir)) as process:
        process.until("TensorBoard starts at http://127.0.0.1:", within=LIMIT)
        process.until("TensorBoard is ready at http://127.0.0.1:", within=LIMIT)
        match = re.search(r"TensorBoard is ready at (\S+)", process.output)
        assert match is not None
        url = match[1]
        assert "<title>TensorBoard</title>" in get(url)

        def curves() -> dict[str, Any]:
            tags = json.loads(get(f"{url}/data/plugin/scalars/tags") or "{}")
            assert set(tags) == {"train", "test"}, tags
            return {run: set(names) for run, names in tags.items()}

        both = {"loss", "accuracy"}
        eventually(lambda: curves() == {"train": both, "test": both}, within=LIMIT, every=0.5, what="the curves")
        points = json.loads(get(f"{url}/data/plugin/scalars/scalars?run=train&tag=loss"))
        assert [step for _, step, _ in points][:1] == [1]

        first = board_process(run_dir)
        assert b"AWS_REGION=eu-west-1" in Path(f"/proc/{first}/environ").read_bytes().split(b"\0")
        os.kill(first, signal.SIGKILL)
        eventually(lambda: board_process(run_dir) not in (0, first), within=LIMIT, what="it is started again")
        eventually(lambda: get(url), within=2 * LIMIT, every=0.2, what="the page answers again")

        process.signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130, process.output
    assert "accuracy on held-out samples" not in process.output
    assert get(url) == ""
    again = re.search(r"To look at the TensorBoard of the job again: tensorboard --logdir (\S+)", process.output)
    assert again is not None
    assert list(Path(again[1]).glob("train/events.out.tfevents.*"))


def test_it_stops_with_the_run_and_the_result_says_where_its_logs_are(tmp_path: Path) -> None:
    write = f"mkdir -p {shlex.quote(str(tmp_path / 'logs/mine'))}; echo trained"
    (tmp_path / "job.yaml").write_text(with_board("quick", tmp_path / "logs", "sh", "-c", write))
    done = Cli(tmp_path).run("run", "job.yaml", "--logs-dir", "run", "-o", "json", timeout=LIMIT, code=0)
    [job] = json.loads(done.stdout)["jobs"]
    assert job["logDir"] == str(tmp_path / "logs/mine")
    assert [summary["name"] for summary in job["replicas"]] == ["worker-0"]
    assert board_process(tmp_path / "run") == 0


def test_where_it_is_not_installed_the_run_says_so_and_the_job_trains_on(tmp_path: Path) -> None:
    # An interpreter in a folder of its own, which finds the same packages but none of their programs.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(Path(sys.executable).resolve())
    packages = [str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    environment = {**os.environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(dict.fromkeys(packages))}
    wait = "until [ -e told ]; do sleep 0.05; done; echo trained"
    (tmp_path / "job.yaml").write_text(with_board("plain", tmp_path / "logs", "sh", "-c", wait))
    command = [str(tmp_path / "bin/python"), "-m", "tfoperator.cli", "run", "job.yaml"]
    with CliProcess(command, tmp_path, environment) as process:
        process.until("pip install tensorboard")
        (tmp_path / "told").touch()
        assert process.wait() == 0, process.output
    assert "[worker-0] trained" in process.output


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A client of a control plane that stays up."""
    with local_cli(tmp_path) as cli, Client(load_config(cli.environment["KUBECONFIG"])) as client:
        yield client


def test_under_local_up_it_serves_until_the_job_is_deleted(client: Client, tmp_path: Path) -> None:
    client.create(TFJOBS, "default", with_board("mnist", tmp_path / "logs", "true").encode(), decode_tfjob)

    def job() -> TFJob:
        return client.get(TFJOBS, "default", "mnist", decode_tfjob)

    def ready() -> bool:
        board = job().status.tensor_board
        assert board is not None, job().status
        return board.ready

    eventually(ready, within=LIMIT, what="its page answers")
    eventually(lambda: job().status.phase == "Succeeded", what="the job has ended, which takes it no time")
    board = job().status.tensor_board
    assert board is not None
    assert "<title>TensorBoard</title>" in get(board.url)
    client.delete(TFJOBS, "default", "mnist", propagation_policy="Background")
    eventually(lambda: not get(board.url), what="it is gone with the job")
