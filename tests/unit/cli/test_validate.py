from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.api.samples import tfjob
from tfoperator.cli.__main__ import main

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


def test_a_good_manifest_is_called_valid(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", good]) == 0
    assert capsys.readouterr().out == f"{good}:1: TFJob mnist is valid\n"


def test_every_problem_comes_with_its_line_and_field(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", bad]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{bad}:9: error: spec.tfReplicaSpecs[Worker].replicas: must be 0 or more, but is -1",
        f"{bad}:13: error: spec.tfReplicaSpecs[Worker].template.spec.containers[0].image: is required",
        f"{bad}:6: warning: spec.cleanPodPolicy: is unknown and will be ignored; it belongs in spec.runPolicy",
    ]


def test_warnings_pass_unless_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "job.yaml", tfjob({"Worker": {}}, cleanPodPolicy="All"))
    assert main(["validate", path]) == 0
    assert main(["validate", "--strict", path]) == 1
    assert capsys.readouterr().out.count("is valid") == 1


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert main(["validate", "-"]) == 1
    assert capsys.readouterr().out.startswith("<stdin>:9: error: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2\n", ":2:2: is not valid YAML: "),
        ("", ": holds no object"),
        ("apiVersion: v1\nkind: ConfigMap\n", ": holds no TFJob"),
    ],
)
def test_a_file_that_cannot_be_judged_is_bad_input(
    text: str, message: str, tmp_path: Path, good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    assert main(["validate", str(path), good]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"{path}{message}")
    assert f"{good}:1: TFJob mnist is valid" in captured.out


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "/no/such.yaml"]) == 2
    assert capsys.readouterr().err == "/no/such.yaml: no such file\n"


def test_other_objects_beside_a_tfjob_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    path = write(tmp_path / "job.yaml", config, tfjob({"Worker": {}}))
    assert main(["validate", path]) == 0
    assert f"{path}:1: skipped: ConfigMap c is not a TFJob" in capsys.readouterr().out


@pytest.mark.parametrize(
    "identity", [{"apiVersion": "kubeflow.org/v1beta2"}, {"kind": "tfjob"}, {"apiVersion": None}, {"kind": None}]
)
def test_a_job_that_misnames_itself_is_not_skipped(
    identity: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "job.yaml", tfjob({"Worker": {}}) | identity)
    assert main(["validate", path]) == 1
    assert next(iter(identity)) + ": must be" in capsys.readouterr().out


def test_json_output_is_for_programs(bad: str, good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-o", "json", good, bad, "/no/such.yaml"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["valid"] is False
    assert [(item["source"], item["name"], item["valid"]) for item in report["objects"]] == [
        (good, "mnist", True),
        (bad, "mnist", False),
    ]
    assert report["objects"][1]["problems"][0] == {
        "severity": "error",
        "field": "spec.tfReplicaSpecs[Worker].replicas",
        "message": "must be 0 or more, but is -1",
        "line": 9,
    }
    assert report["errors"] == [{"source": "/no/such.yaml", "line": None, "column": None, "message": "no such file"}]


def test_a_manifest_cannot_talk_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "job.yaml", tfjob({"\x1b[2J": {}}, name="\x1b]0;x\x07"))
    assert main(["validate", path]) == 1
    assert "\x1b" not in capsys.readouterr().out
