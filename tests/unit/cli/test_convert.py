from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import tfjob
from tfoperator.api.loading import load_manifests
from tfoperator.api.validation import errors, validate_manifest
from tfoperator.cli import run as run_command
from tfoperator.cli.__main__ import main

EXAMPLES = Path(__file__).parents[3] / "examples" / "older"

OLD = """\
# A job from before
apiVersion: kubeflow.org/v1alpha1
kind: TFJob
metadata: {name: mnist}
spec:
  runtimeId: ab12
  replicaSpecs:
  - tfReplicaType: MASTER
    template:
      spec:
        containers:
        - name: tensorflow
          image: example.com/train:1
"""

MIDDLE = """\
apiVersion: kubeflow.org/v1alpha2
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Eval:
      replicas: -1
      template: {spec: {containers: [{name: tensorflow, image: i}]}}
    Worker:
      restartPolicy: Never
      template: {spec: {containers: [{name: tensorflow, image: i}]}}
"""


@pytest.fixture
def old(tmp_path: Path) -> str:
    return write(tmp_path, OLD)


def write(folder: Path, text: str, name: str = "job.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[list[Any], list[str]]:
    captured = capsys.readouterr()
    return list(yaml.safe_load_all(captured.out)), captured.err.splitlines()


def test_the_job_goes_to_stdout_and_the_notes_with_their_lines_to_stderr(
    old: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", old]) == 0
    (job,), said = printed(capsys)
    assert job["apiVersion"] == "kubeflow.org/v1"
    assert list(job["spec"]["tfReplicaSpecs"]) == ["Master"]
    assert said[0] == f"{old}:2: note: kubeflow.org/v1alpha1 is taken as kubeflow.org/v1"
    assert said[1].startswith(f"{old}:8: note: spec.replicaSpecs[0].tfReplicaType: MASTER becomes Master")
    assert [line for line in said if "warning" in line] == [
        f"{old}:6: warning: spec.runtimeId: is left out: objects are named after the job in v1; it is kept in the "
        "annotation training.kubeflow.org/v1alpha1-only"
    ]
    assert said[-1] == f"{old}: note: comments in the file, if any, are lost"


def test_strict_minds_what_is_lost_and_only_that(old: str, tmp_path: Path) -> None:
    assert main(["convert", "--strict", old]) == 1
    carried = write(tmp_path, OLD.replace("  runtimeId: ab12\n", ""), "carried.yaml")
    assert main(["convert", "--strict", carried]) == 0


def test_other_documents_pass_through_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: '1e3'\n  b: |\n    x\n    y\n"
    current = tfjob("now", Worker={"odd": 1})
    assert main(["convert", write(tmp_path, f"{config}---\n{OLD}---\n{current}\n")]) == 0
    captured = capsys.readouterr()
    documents = captured.out.split("---\n")
    assert documents[0] == config
    assert yaml.safe_load(documents[2]) == json.loads(current)


def test_nothing_is_said_of_what_is_v1_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--strict", write(tmp_path, tfjob("now"))]) == 0
    assert capsys.readouterr().err == ""


def test_json_holds_one_object_or_a_list(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-o", "json", old]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "TFJob"
    assert main(["convert", "-o", "json", old, old]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["kind"], len(whole["items"])) == ("List", 2)


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OLD.encode())))
    assert main(["convert", "-"]) == 0
    assert printed(capsys)[1][0].startswith("<stdin>:2: note: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\n", ":2:1: is not valid YAML: "),
        (
            OLD.replace("MASTER", "EVAL"),
            ":8: error: spec.replicaSpecs[0].tfReplicaType: must be one of MASTER, PS, WORKER",
        ),
        (OLD.replace("v1alpha1", "v9"), ':2: error: apiVersion: "kubeflow.org/v9" is no version of TFJob known here'),
    ],
)
def test_bad_input_ends_with_2_and_prints_nothing(
    text: str, message: str, tmp_path: Path, old: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = write(tmp_path, text, "bad.yaml")
    assert main(["convert", old, bad]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{bad}{message}" in captured.err


def test_a_job_that_was_wrong_before_is_converted_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, MIDDLE)
    assert main(["convert", path]) == 0
    wrong = f"{path}:7: warning: not valid yet: spec.tfReplicaSpecs[Eval].replicas: must be 0 or more, but is -1"
    assert wrong in capsys.readouterr().err


def test_a_manifest_cannot_talk_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MIDDLE.replace("  tfReplicaSpecs", '  "\\e[2J": 1\n  tfReplicaSpecs')
    assert main(["convert", write(tmp_path, text)]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


def test_validate_judges_an_older_job_by_its_own_fields_and_lines(
    tmp_path: Path, old: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, MIDDLE, "middle.yaml")
    assert main(["validate", path]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{path}:1: note: kubeflow.org/v1alpha2 is taken as kubeflow.org/v1"
    assert f"{path}:7: error: spec.tfReplicaSpecs[Eval].replicas: must be 0 or more, but is -1" in said
    assert main(["validate", old]) == 0
    assert f"{old}:2: TFJob mnist is valid" in capsys.readouterr().out
    assert main(["validate", "--strict", old]) == 1


def test_validates_report_has_the_notes(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-o", "json", old]) == 0
    (found,) = json.loads(capsys.readouterr().out)["objects"]
    assert found["apiVersion"] == "kubeflow.org/v1alpha1"
    assert [(note["field"], note["line"]) for note in found["notes"] if note["lost"]] == [("spec.runtimeId", 6)]


def test_run_takes_an_older_job_as_v1(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    (manifest,) = run_command._load([old])
    assert manifest.obj["apiVersion"] == "kubeflow.org/v1"
    assert errors(validate_manifest(manifest.obj)) == ()
    assert capsys.readouterr().err.startswith(f"{old}:2: note: kubeflow.org/v1alpha1 is taken as kubeflow.org/v1")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_design_documents_examples_convert_and_are_valid(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(path)]) == 0
    converted = write(tmp_path, capsys.readouterr().out)
    (manifest,) = load_manifests(converted)
    assert manifest.obj["apiVersion"] == "kubeflow.org/v1"
    assert main(["validate", converted]) == 0


def test_there_is_an_example_of_each_design_document() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == {"v1alpha1", "v1alpha2", "draft-local"}
