"""`tfoperator run --track mlflow`: MLflow's own client, server and page have what a run trained with, and its end."""

import json
import os
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import expect

from hack import strangers
from hack.chromium import running_chromium
from hack.processes import free_port, spawn
from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

PROGRAM = textwrap.dedent(
    """
    import sys, time
    from tfoperator.progress import Progress

    with Progress(40) as progress:
        for step in range(1, 41):
            progress.update(step, **{"loss": 1 / step, "val (top-5)": step / 40})
            time.sleep(0.3)  # one report in five seconds is sent
    sys.exit(3 if "--fail" in sys.argv else 0)
    """
)
READER = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
found = []
for run in client.search_runs([client.get_experiment_by_name("tfoperator").experiment_id]):
    history = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    curves = {name: [[point.step, point.value] for point in points] for name, points in history.items()}
    found.append({"name": run.info.run_name, "id": run.info.run_id, "experiment": run.info.experiment_id,
                  "status": run.info.status, "params": run.data.params, "tags": run.data.tags, "curves": curves})
print(json.dumps(found))
"""
RUN = "import sys; sys.path.append(sys.argv.pop(1)); from tfoperator.cli.__main__ import main; sys.exit(main())"
"""The command with MLflow installed beside it; what both need is ours."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow server."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    python = str(strangers.find(strangers.MLFLOW))
    command = [python, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    stores = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--default-artifact-root", str(folder / "files")]
    quiet = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    process = spawn([*command, *stores, "--host", "127.0.0.1"], folder / "log", env=quiet)

    def serves() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    try:
        eventually(serves, within=120, what="MLflow's server answers")
        yield f"http://127.0.0.1:{port}"
    finally:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait(60)


def train(folder: Path, place: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(PROGRAM)
    packages = next(strangers.find(strangers.MLFLOW).parents[1].glob("lib/*/site-packages"))
    command = [sys.executable, "-c", RUN, str(packages), "run", "train.py", "--track", "mlflow", *words]
    variables = {**os.environ, "MLFLOW_TRACKING_URI": place, "MLFLOW_DISABLE_TELEMETRY": "true"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)


def tracked(place: str) -> list[dict[str, Any]]:
    command = [str(strangers.find(strangers.MLFLOW)), "-c", READER, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    runs: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return runs


def test_a_server_has_runs_that_succeeded_and_failed_and_shows_their_curves(server: str, tmp_path: Path) -> None:
    done = train(tmp_path, server, "-o", "json", "--", "--rate", "0.1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "Succeeded"  # standard output has only the report
    assert f"recorded in MLflow: {server}, experiment tfoperator" in done.stderr
    assert train(tmp_path, server, "--name", "worse", "--", "--fail").returncode == 1

    runs = {run["name"]: run for run in tracked(server)}
    assert {name: (run["status"], run["params"]) for name, run in runs.items()} == {
        "train": ("FINISHED", {"rate": "0.1"}),
        "worse": ("FAILED", {"fail": "yes"}),
    }
    assert "exited with code 3" in runs["worse"]["tags"]["mlflow.note.content"]
    for run in runs.values():
        steps = [step for step, _ in run["curves"]["loss"]]
        assert run["curves"]["loss"] == [[step, pytest.approx(1 / step, rel=1e-3)] for step in steps]
        assert len(steps) > 1
        assert steps[-1] == 40
        assert [step for step, _ in run["curves"]["val _top-5_"]] == steps

    with running_chromium(tmp_path) as browser:
        page = browser.new_page()
        train_run = runs["train"]
        page.goto(f"{server}/#/experiments/{train_run['experiment']}/runs/{train_run['id']}/model-metrics")
        expect(page.get_by_text("val _top-5_").first).to_be_visible(timeout=60_000)
        expect(page.locator(".js-plotly-plot").first).to_be_visible(timeout=60_000)


def test_a_file_is_enough_and_a_run_whose_time_is_up_was_killed(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/mlflow.db"
    assert train(tmp_path, place, "--timeout", "1s").returncode == 124
    assert [run["status"] for run in tracked(place)] == ["KILLED"]


def test_a_server_that_is_not_there_is_an_error_before_the_run(tmp_path: Path) -> None:
    done = train(tmp_path, f"http://127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--track: MLflow's http://127.0.0.1" in done.stderr
    assert "Nothing was started." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".tfoperator").exists()
