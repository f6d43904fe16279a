import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.api.samples import tfjob
from tests.unit.cli.conftest import Run
from tfoperator.cli.commands import run as run_command

BAD = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: mnist
spec:
  cleanPodPolicy: All
  tfReplicaSpecs:
    Worker:
      replicas: -1
      template:
        spec:
          containers:
          - name: tensorflow
"""


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


@pytest.fixture
def good(tmp_path: Path) -> str:
    return write(tmp_path / "good.yaml", tfjob({"Worker": {}}))


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return str(path)


def test_every_problem_comes_with_its_line_and_field(bad: str, run: Run) -> None:
    assert run("validate", bad, code=1).out.splitlines() == [
        f"{bad}:9: error: spec.tfReplicaSpecs[Worker].replicas: must be 0 or more, but is -1",
        f"{bad}:13: error: spec.tfReplicaSpecs[Worker].template.spec.containers[0].image: is required",
        f"{bad}:6: warning: spec.cleanPodPolicy: is unknown: kubectl refuses it, other clients ignore it; it belongs "
        "in spec.runPolicy, to which `tfoperator convert` moves it",
    ]


def test_a_parameter_server_without_a_template_is_a_warning_that_counts_with_strict_but_not_where_it_needs_no_image(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tfjob({"PS": {}, "Worker": {}})
    del job["spec"]["tfReplicaSpecs"]["PS"]["template"]
    path = write(tmp_path / "job.yaml", job)
    assert run("validate", path, code=0).out.splitlines() == [
        f"{path}:8: warning: spec.tfReplicaSpecs[PS].template: is not set, so the job fails unless the operator has "
        "--default-ps-image, the image for parameter servers without a template",
        f"{path}:1: TFJob mnist is valid",
    ]
    assert "is valid" not in run("validate", "--strict", path, code=1).out
    (obj,) = json.loads(run("validate", "-o", "json", path, code=0).out)["objects"]
    assert obj["valid"]
    (problem,) = obj["problems"]
    assert (problem["severity"], problem["field"]) == ("warning", "spec.tfReplicaSpecs[PS].template")
    run_command._load([path])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", ":2:2: is not valid YAML: "),
        ("", ": holds no object"),
        ("apiVersion: v1\nkind: ConfigMap\n", ": holds no TFJob"),
    ],
)
def test_a_file_that_cannot_be_judged_is_bad_input(
    text: str, message: str, tmp_path: Path, good: str, run: Run
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    captured = run("validate", str(path), "/no/such.yaml", good, code=2)
    assert captured.err.startswith(f"{path}{message}")
    assert captured.err.endswith("\n/no/such.yaml: no such file\n")
    assert f"{good}:1: TFJob mnist is valid" in captured.out


def test_a_good_manifest_is_called_valid_and_other_objects_beside_a_tfjob_are_skipped(tmp_path: Path, run: Run) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    path = write(tmp_path / "job.yaml", config, tfjob({"Worker": {}}))
    assert run("validate", path, code=0).out.splitlines() == [
        f"{path}:1: skipped: ConfigMap c is not a TFJob",
        f"{path}:6: TFJob mnist is valid",
    ]


@pytest.mark.parametrize(
    "identity", [{"apiVersion": "kubeflow.org/v1beta2"}, {"kind": "tfjob"}, {"apiVersion": None}, {"kind": None}]
)
def test_a_job_that_misnames_itself_is_not_skipped_and_can_not_talk_to_the_terminal(
    identity: dict[str, Any], tmp_path: Path, run: Run
) -> None:
    path = write(tmp_path / "job.yaml", tfjob({"\x1b[2J": {}}, name="\x1b]0;x\x07") | identity)
    output = run("validate", path, code=1).out
    assert next(iter(identity)) + ": must be" in output
    assert "\x1b" not in output


def test_json_output_is_for_programs(bad: str, good: str, run: Run) -> None:
    report = json.loads(run("validate", "-o", "json", good, bad, "/no/such.yaml", code=2).out)
    assert report["valid"] is False
    judged = [(item["source"], item["name"], item["valid"]) for item in report["objects"]]
    assert judged == [(good, "mnist", True), (bad, "mnist", False)]
    problem = {"field": "spec.tfReplicaSpecs[Worker].replicas", "message": "must be 0 or more, but is -1"}
    assert report["objects"][1]["problems"][0] == {**problem, "severity": "error", "line": 9}
    assert report["errors"] == [{"source": "/no/such.yaml", "line": None, "column": None, "message": "no such file"}]


@pytest.mark.parametrize("kind", ["Experiment", "Profile", "PyTorchJob", "Notebook", "MPIJob", "TrainJob"])
def test_other_kinds_of_the_group_are_skipped(run: Run, tmp_path: Path, kind: str) -> None:
    other = {"apiVersion": "kubeflow.org/v1beta1", "kind": kind, "metadata": {"name": "other"}, "spec": {"odd": 1}}
    file = write(tmp_path / "mixed.yaml", other, tfjob({"Worker": {}}))
    assert f"{file}:1: skipped: {kind} other is not a TFJob" in run("validate", file, code=0).out


@pytest.mark.parametrize("kind", ["TfJob", "TFjob", "TFJobs", "TensorFlowJob", "TJob"])
def test_a_misspelt_kind_of_the_group_is_an_error(run: Run, tmp_path: Path, kind: str) -> None:
    file = write(tmp_path / "job.yaml", tfjob({"Worker": {}}) | {"kind": kind})
    assert f'error: kind: must be TFJob, but is "{kind}"' in run("validate", file, code=1).out
