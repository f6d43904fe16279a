import json
from pathlib import Path

import pytest
import yaml

from tests.support.cli import tfjob
from tests.unit.cli.conftest import Run
from tfoperator.api.loading import load_manifests

EXAMPLES = Path(__file__).parents[4] / "examples" / "older"

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


TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}


@pytest.fixture
def old(tmp_path: Path) -> str:
    return write(tmp_path, OLD)


def write(folder: Path, text: str, name: str = "job.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_job_goes_to_stdout_and_the_notes_with_their_lines_to_stderr(old: str, run: Run) -> None:
    converted = run("convert", old, code=0)
    job, lines = yaml.safe_load(converted.out), converted.err.splitlines()
    assert job["apiVersion"] == "kubeflow.org/v1"
    assert list(job["spec"]["tfReplicaSpecs"]) == ["Master"]
    assert lines[0] == f"{old}:2: note: kubeflow.org/v1alpha1 is read as kubeflow.org/v1"
    assert lines[1].startswith(f"{old}:8: note: spec.replicaSpecs[0].tfReplicaType: MASTER becomes Master")
    assert [line for line in lines if "warning" in line] == [
        f"{old}:6: warning: spec.runtimeId: is left out: in v1, pods and services are named after the job; the "
        "annotation training.kubeflow.org/v1alpha1-only keeps the value"
    ]
    assert lines[-1] == f"{old}: note: comments in this file, if any, are not in the output"


def test_strict_minds_what_is_lost_and_only_that(old: str, tmp_path: Path, run: Run) -> None:
    run("convert", "--strict", old, code=1)
    carried = write(tmp_path, OLD.replace("  runtimeId: ab12\n", ""), "carried.yaml")
    run("convert", "--strict", carried, code=0)
    current = write(tmp_path, tfjob("now", Worker={"template": TEMPLATE}), "current.yaml")
    assert run("convert", "--strict", current, code=0).err == "", "nothing is said of what is v1 already"


def test_other_documents_pass_through_unchanged_and_json_holds_one_object_or_a_list(
    tmp_path: Path, old: str, run: Run
) -> None:
    config = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: '1e3'\n  b: |\n    x\n    y\n"
    current = tfjob("now", Worker={"odd": 1, "template": TEMPLATE})
    captured = run("convert", write(tmp_path, f"{config}---\n{OLD}---\n{current}\n", "more.yaml"), code=0)
    documents = captured.out.split("---\n")
    assert documents[0] == config
    assert yaml.safe_load(documents[2]) == json.loads(current)
    assert json.loads(run("convert", "-o", "json", old, code=0).out)["kind"] == "TFJob"
    whole = json.loads(run("convert", "-o", "json", old, old, code=0).out)
    assert (whole["kind"], len(whole["items"])) == ("List", 2)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (OLD, "a: [1\n", ":2:1: is not valid YAML: "),
        ("MASTER", "EVAL", ":8: error: spec.replicaSpecs[0].tfReplicaType: must be one of MASTER, PS, WORKER"),
        (
            "v1alpha1",
            "v9",
            ':2: error: apiVersion: "kubeflow.org/v9" is not a version of TFJob in this release',
        ),
    ],
)
def test_bad_input_ends_with_2_and_prints_nothing(
    before: str, after: str, message: str, tmp_path: Path, old: str, run: Run
) -> None:
    bad = write(tmp_path, OLD.replace(before, after), "bad.yaml")
    captured = run("convert", old, bad, code=2)
    assert captured.out == ""
    assert f"{bad}{message}" in captured.err


def test_a_job_that_was_wrong_before_is_printed_but_called_wrong_and_can_not_talk_to_the_terminal(
    tmp_path: Path, run: Run
) -> None:
    path = write(tmp_path, MIDDLE.replace("  tfReplicaSpecs", '  "\\e[2J": 1\n  tfReplicaSpecs'))
    result = run("convert", path, code=1)
    assert f"{path}:8: error: spec.tfReplicaSpecs[Eval].replicas: must be 0 or more, but is -1\n" in result.err
    assert yaml.safe_load(result.out)["spec"]["tfReplicaSpecs"]["Evaluator"]["replicas"] == -1
    assert "\x1b" not in result.out + result.err


def test_validate_judges_an_older_job_by_its_own_fields_and_lines(tmp_path: Path, old: str, run: Run) -> None:
    path = write(tmp_path, MIDDLE, "middle.yaml")
    lines = run("validate", path, code=1).out.splitlines()
    assert lines[0] == f"{path}:1: note: kubeflow.org/v1alpha2 is read as kubeflow.org/v1"
    assert f"{path}:7: error: spec.tfReplicaSpecs[Eval].replicas: must be 0 or more, but is -1" in lines
    assert f"{old}:2: TFJob mnist is valid" in run("validate", old, code=0).out
    run("validate", "--strict", old, code=1)
    (obj,) = json.loads(run("validate", "-o", "json", old, code=0).out)["objects"]
    assert obj["apiVersion"] == "kubeflow.org/v1alpha1"
    assert [(note["field"], note["line"]) for note in obj["notes"] if note["lost"]] == [("spec.runtimeId", 6)]


@pytest.mark.parametrize("name", ["v1alpha1", "v1alpha2", "draft-local"])
def test_the_design_documents_examples_convert_and_are_valid(name: str, tmp_path: Path, run: Run) -> None:
    converted = write(tmp_path, run("convert", str(EXAMPLES / f"{name}.yaml"), code=0).out)
    (manifest,) = load_manifests(converted)
    assert manifest.obj["apiVersion"] == "kubeflow.org/v1"
    run("validate", converted, code=0)


EXPORTED = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist, uid: u, resourceVersion: "7", selfLink: /x, clusterName: c}
spec:
  cleanPodPolicy: Odd
  backoffLimit: 3
  runPolicy: {backoffLimit: 4}
  tfReplicaSpecs:
    Worker:
      template: {spec: {containers: [{name: tensorflow, image: i}]}}
"""


def test_an_exported_job_of_early_v1_becomes_a_manifest_with_its_policies_where_they_hold(
    run: Run, tmp_path: Path
) -> None:
    file = write(tmp_path, EXPORTED)
    converted = run("convert", file, code=1)
    job = yaml.safe_load(converted.out)
    assert job["metadata"] == {"name": "mnist"}
    assert job["spec"]["runPolicy"] == {"backoffLimit": 4, "cleanPodPolicy": "Odd"}
    lines = converted.err.splitlines()
    assert f"{file}:5: note: spec.cleanPodPolicy: is moved to spec.runPolicy" in lines
    lost = "spec.backoffLimit: is left out: spec.runPolicy.backoffLimit has a different value, which stays"
    assert f"{file}:6: warning: {lost}" in lines
    assert [line for line in lines if ": error: " in line] == [
        f'{file}:5: error: spec.cleanPodPolicy: must be one of All, Running, None, but is "Odd"'
    ]
    good = write(tmp_path, EXPORTED.replace("Odd", "All"), "good.yaml")
    run("convert", good, code=0)
    run("convert", good, "--strict", code=1)
    again = write(tmp_path, run("convert", good, code=0).out, "again.yaml")
    assert run("convert", again, code=0).err == "", "nothing is left to convert"
