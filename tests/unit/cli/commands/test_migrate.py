import json
from pathlib import Path

import pytest

from tests.support.cli import replica, tfjob
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Run, Tell
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.verbs import decode_plain

PEER = Path(__file__).parents[4] / "examples" / "peer"


def test_manifests_are_judged_without_a_cluster(run: Run) -> None:
    result = run("migrate", str(PEER / "two-workers.yaml"), code=0)
    assert "two-workers.yaml:2: TFJob tfjob-simple" in result.out
    assert "change  spec.runPolicy.cleanPodPolicy" in result.out
    assert "no action is needed before the migration" in result.err


def test_the_exit_code_says_that_something_needs_a_hand_or_that_there_is_no_tfjob(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    assert "the file contains no TFJob" in run("migrate", str(file), code=2).err
    file.write_text(tfjob("Mnist", Worker=replica("true")))
    report = json.loads(run("migrate", str(file), "-o", "json", code=1).out)
    assert report["actions"] == 1
    [job] = report["jobs"]
    [finding] = [candidate for candidate in job["findings"] if candidate["effort"] == "action"]
    assert (job["name"], finding["field"]) == ("Mnist", "metadata.name")


def test_a_job_with_a_generated_name_counts_and_other_kinds_of_the_group_are_skipped(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    generated = json.loads(tfjob("x", Worker=replica("true")))
    generated["metadata"] = {"generateName": "nightly-"}
    experiment = {"apiVersion": "kubeflow.org/v1beta1", "kind": "Experiment", "metadata": {"name": "e"}}
    file.write_text(f"{json.dumps(generated)}\n---\n{json.dumps(experiment)}\n")
    result = run("migrate", str(file), code=0)
    assert f"{file}:1: TFJob nightly-*" in result.out
    assert f"{file}:3: skipped: Experiment e is not a TFJob" in result.err
    assert "1 TFJobs were checked" in result.err
    report = json.loads(run("migrate", str(file), "-o", "json", code=0).out)
    assert [job["name"] for job in report["jobs"]] == [""]
    assert report["cluster"] == []


@pytest.mark.parametrize("option", [["-A"], ["-n", "team"], ["--context", "x"]])
def test_files_and_a_cluster_exclude_each_other(run: Run, option: list[str]) -> None:
    assert "either manifests or options for a cluster" in run("migrate", "job.yaml", *option, code=2).err


def test_a_cluster_is_read_and_nothing_is_written(world: ServedWorld, tell: Tell) -> None:
    manifest = json.loads(tfjob("mnist", clean="", Worker=replica("true", restart="OnFailure")))
    before = world.sdk.api.create(TFJOBS, world.namespace, manifest, decode_plain)
    report = json.loads(tell("migrate", "-o", "json", code=0).out)
    [job] = report["jobs"]
    assert (job["namespace"], job["name"]) == (world.namespace, "mnist")
    assert [finding["field"] for finding in job["findings"]] == ["spec.runPolicy.cleanPodPolicy"]
    assert [finding["field"] for finding in report["cluster"]] == ["RBAC"]
    assert world.sdk.api.get(TFJOBS, world.namespace, "mnist", decode_plain) == before
