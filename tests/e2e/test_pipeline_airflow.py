"""The DAG that `pipeline compile --to airflow` writes, read by a real Airflow, which renders the pods of its tasks."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from hack import strangers
from tests.support.cli import Cli
from tfoperator.pipeline.home import is_run_id

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/contract/strangers/airflow_dag.py"
HOSTILE = "{{ run_id }} {% raw %} $(HOME) '\" \n ü"
NOWHERE = {
    "apiVersion": "v1", "kind": "Config", "current-context": "x",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
}  # fmt: skip


def test_airflow_reads_the_dag_and_makes_the_launchers_pods(tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    compiled = ["--to", "airflow", "--platform", "kubernetes", "--image", "example.com/p:1", "--param", "root=/data/r"]
    example = str(ROOT / "examples/pipeline/digits.py")
    Cli(tmp_path).run("pipeline", "compile", example, *compiled, "-o", "dags/digits.py", code=0)
    (tmp_path / "kubeconfig").write_text(json.dumps(NOWHERE))
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }
    run_id = "manual__2026-11-22T18:00:00+00:00/ü"
    command = [strangers.find(strangers.AIRFLOW), SCRIPT, dags, run_id, json.dumps({"root": HOSTILE, "alpha": 0.5})]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])

    assert answer["errors"] == {}
    params = {"root": "/data/r", "alpha": 0.001, "seed": 1, "in_process": False, "image": "tfoperator/examples:0.1.0"}
    assert answer["dags"] == {"digits": {"parallel": 4, "params": params}}
    steps = {"Data", "Train.single", "Train.distributed", "Evaluate"}
    assert answer["tasks"].keys() == {*steps, "tfoperator-finish"}
    assert answer["tasks"]["Evaluate"]["upstream"] == ["Data", "Train.distributed", "Train.single"]
    finish = answer["tasks"]["tfoperator-finish"]
    assert (finish["teardown"], set(finish["upstream"])) == (True, steps)

    for task in answer["tasks"].values():
        assert task["done"] is None
        assert "its step has not succeeded" in str(task["interrupted"])

    spec = answer["tasks"]["Train.single"]["pod"]["spec"]
    (container,) = spec["containers"]
    assert container["command"] == ["tfoperator", "pipeline"]
    assert container["args"][:3] == ["step", "/pipeline/digits.py", "Train.single"]
    run = next(word.removeprefix("--run-id=") for word in container["args"] if word.startswith("--run-id="))
    assert is_run_id(run)
    assert finish["pod"]["spec"]["containers"][0]["args"] == ["finish", run, "--home=/data/records"]
    given = dict(word.removeprefix("--encoded-param=").split("=", 1) for word in container["args"] if "encoded" in word)
    assert {name: base64.b64decode(value).decode() for name, value in given.items()} == {
        "root": HOSTILE, "alpha": "0.5", "seed": "1", "in_process": "false", "image": "tfoperator/examples:0.1.0"
    }  # fmt: skip
    assert (spec["serviceAccountName"], spec["terminationGracePeriodSeconds"]) == ("pipeline-runner", 120)
    assert (spec["securityContext"]["runAsNonRoot"], container["securityContext"]["readOnlyRootFilesystem"]) == (
        True,
        True,
    )
