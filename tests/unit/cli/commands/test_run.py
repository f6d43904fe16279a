import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.support.cli import replica, tfjob
from tests.unit.cli.conftest import Run
from tfoperator.api.fields.limits import MANAGED_BY_OPERATOR
from tfoperator.api.loading import Manifest
from tfoperator.cli.commands import run as command
from tfoperator.cli.manifests import check_runnable
from tfoperator.cli.run_directory import make_run_dir
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.waiting import timeout_seconds
from tfoperator.local.run.results import RunOutcome, RunResult
from tfoperator.local.runtime.selection import RuntimeOptions

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, name: str = "job.yaml") -> str:
    Path(name).write_text(text)
    return name


def test_a_duration_may_be_in_capitals_and_what_is_none_or_nothing_is_refused_and_the_option_named(run: Run) -> None:
    assert timeout_seconds("10M") == 600
    for text in ("soon", "0"):
        with pytest.raises(typer.BadParameter):
            timeout_seconds(text)
    result = run("run", "--timeout", "5x", "job.yaml", code=2)
    assert "--timeout: '5x' is not a duration" in " ".join(result.err.split())


def test_every_problem_is_told_with_its_place_and_warnings_stop_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tfjob("one", Worker=replica("true", replicas=-1)), "one.yaml")
    second = write(tfjob("two", Boss=replica("true")), "two.yaml")
    with pytest.raises(CliError) as error:
        command._load([first, second])
    assert "one.yaml:1: spec.tfReplicaSpecs[Worker].replicas: " in error.value.message
    assert "two.yaml:1: spec.tfReplicaSpecs[Boss]" in error.value.message
    assert error.value.exit_code == 2
    with pytest.raises(CliError, match="no TFJob"):
        command._load([write('{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}')])
    claim = '{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}}'
    job = tfjob("one", Worker=replica("true")).replace('"spec"', '"cleanPodPolicy": "All", "spec"', 1)
    loaded = command._load([write(f"{claim}\n---\n{job}")])
    assert [manifest.obj["kind"] for manifest in loaded] == ["TFJob"]
    output = capsys.readouterr().err
    assert "job.yaml:1: warning: CronJob (batch/v1) is skipped" in output
    assert "job.yaml:3: warning: cleanPodPolicy" in output


def test_every_run_gets_a_directory_and_latest_points_to_the_last_unless_there_is_one_of_ones_own(folder: Path) -> None:
    assert make_run_dir(folder / "a" / "b", "job") == folder / "a" / "b"
    assert (folder / "a" / "b").is_dir()
    assert not (folder / ".tfoperator").exists()
    first, second = make_run_dir(None, "job"), make_run_dir(None, "job-")  # of a generateName
    assert first != second
    assert first.name.endswith("-job") or "-job-" in first.name
    assert (folder / ".tfoperator/runs/latest").resolve() == second.resolve()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tfReplicaSpecs": {"Worker": replica("true", replicas=-1)}}, "spec.tfReplicaSpecs[Worker].replicas"),
        ({"runPolicy": {"suspend": True}}, "spec.runPolicy.suspend: TFJob one would never begin: it is suspended"),
        ({"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}, "spec.runPolicy.managedBy: TFJob one would never"),
        ({"tfReplicaSpecs": {"Worker": replica("true", replicas=0)}}, "TFJob one would never end: it has no replicas"),
    ],
)
def test_a_job_that_nobody_would_bring_to_its_end_is_refused_before_anything_is_started(
    folder: Path, run: Run, fields: dict[str, Any], words: str
) -> None:
    job = json.loads(tfjob("one", Worker=replica("true")))
    job["spec"] |= fields
    result = run("run", write(json.dumps(job)), code=2)
    assert words in result.err
    assert "Nothing was started." in result.err
    assert result.out == ""
    assert not (folder / ".tfoperator").exists()


def test_two_objects_of_one_name_are_refused_before_anything_is_started(folder: Path, run: Run) -> None:
    job = tfjob("one", Worker=replica("true"))
    settings = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}'
    result = run("run", write(f"{settings}\n---\n{job}\n---\n{job}\n---\n{settings}"), code=2)
    assert "job.yaml:5: TFJob one is already defined at job.yaml:3" in result.err
    assert "job.yaml:7: ConfigMap one is already defined at job.yaml:1" in result.err
    assert not (folder / ".tfoperator").exists()
    # Names that do not meet, and a job of this operator, are no mistake.
    job = json.loads(job)
    run_policy = {"suspend": False, "managedBy": MANAGED_BY_OPERATOR}
    job["spec"] = {"runPolicy": run_policy, "tfReplicaSpecs": {"Worker": {}}}
    other = {**job, "metadata": {"name": "one", "namespace": "other"}}
    generated = {**job, "metadata": {"generateName": "one-"}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    objects = [space, space, settings, job, other, generated, generated]
    check_runnable([Manifest(obj, "job.yaml", number) for number, obj in enumerate(objects)])


def mounting(*volumes: dict[str, Any], **container: Any) -> str:
    job = json.loads(tfjob("one", Worker=replica("true")))
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["volumes"] = [{"name": f"v{number}", **volume} for number, volume in enumerate(volumes)]
    pod["containers"][0] |= container
    return json.dumps(job)


POD = "spec.tfReplicaSpecs[Worker].template.spec"


@pytest.mark.parametrize(
    ("job", "field", "what"),
    [
        (mounting({"configMap": {"name": "code"}}), "volumes[0].configMap.name", "ConfigMap code"),
        (
            mounting({"projected": {"sources": [{"secret": {"name": "token"}}]}}),
            "volumes[0].projected.sources[0].secret.name",
            "Secret token",
        ),
        (
            mounting(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "a"}}}]),
            "containers[0].env[0].valueFrom.secretKeyRef.name",
            "Secret token",
        ),
        (
            mounting(envFrom=[{"configMapRef": {"name": "code"}}]),
            "containers[0].envFrom[0].configMapRef.name",
            "ConfigMap code",
        ),
    ],
)
def test_an_object_that_pods_need_and_no_file_has_is_named_before_anything_is_started(
    folder: Path, run: Run, job: str, field: str, what: str
) -> None:
    result = run("run", write(job), code=2)
    assert (
        f"{POD}.{field}: {what} is in none of the files, so the pods would wait for this object without end. "
        "Add the object to this file" in result.err
    )
    assert not (folder / ".tfoperator").exists()


def test_objects_in_a_file_optional_ones_and_those_of_every_namespace_are_not_missing_and_a_claim_is_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = mounting(
        {"configMap": {"name": "code"}},
        {"configMap": {"name": "kube-root-ca.crt"}},
        {"secret": {"secretName": "token", "optional": True}},
        {"persistentVolumeClaim": {"claimName": "data"}},
    )
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    check_runnable([Manifest(obj, "job.yaml", number) for number, obj in enumerate([json.loads(job), code])])
    output = capsys.readouterr().err
    assert output.count("note:") == 1
    assert "PersistentVolumeClaim data is in none of the files: the run uses an empty directory instead" in output
    elsewhere = {**code, "metadata": {"name": "code", "namespace": "other"}}
    with pytest.raises(CliError, match="ConfigMap code is in none of the files"):
        check_runnable([Manifest(obj, "job.yaml", number) for number, obj in enumerate([json.loads(job), elsewhere])])


def test_a_service_account_that_is_in_no_file_is_refused_before_anything_is_started(folder: Path, run: Run) -> None:
    job = json.loads(tfjob("one", Worker=replica("true")))
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["serviceAccountName"] = "trainer"
    result = run("run", write(json.dumps(job)), code=2)
    missing = "ServiceAccount trainer is in none of the files, so the pods can't be created. Add the ServiceAccount to"
    assert f"spec.tfReplicaSpecs[Worker].template.spec.serviceAccountName: {missing}" in result.err
    assert not (folder / ".tfoperator").exists()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
    manifests = [Manifest(obj, "job.yaml", number) for number, obj in enumerate((job, account))]
    check_runnable(manifests)
    account["metadata"]["namespace"] = "other"  # type: ignore[index]
    with pytest.raises(CliError, match="ServiceAccount trainer is in none of the files"):
        check_runnable(manifests)
    pod["serviceAccountName"] = "default"
    check_runnable(manifests)


@pytest.mark.parametrize("namespace", ["../../x", "", "A", "a" * 64, "x\udcff"])
def test_a_namespace_that_there_can_not_be_is_refused_before_anything_is_started(
    folder: Path, run: Run, namespace: str
) -> None:
    result = run("run", write(tfjob("one", Worker=replica("true"))), "-n", namespace, code=2)
    assert "is not a valid name of a namespace" in result.err
    assert not (folder / ".tfoperator").exists()


@pytest.mark.parametrize("file", ["job.yaml", "train.py"])
def test_from_a_directory_that_was_removed_nothing_is_run(folder: Path, run: Run, file: str) -> None:
    gone = folder / "gone"
    gone.mkdir()
    (folder / "job.yaml").write_text(tfjob("one", Worker=replica("true")))
    (folder / "train.py").touch()
    os.chdir(gone)
    gone.rmdir()
    try:
        result = run("run", str(folder / file), code=2)
    finally:
        os.chdir(folder)
    assert "the current directory has been deleted" in result.err


def test_it_is_said_where_processes_start_of_files_that_lie_elsewhere_and_not_of_pipes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "there").mkdir()
    (folder / "there" / "job.yaml").touch()
    os.mkfifo(folder / "there" / "pipe")
    for files, words in ((["there/pipe", "-"], ""), (["there/job.yaml"], f"use --workdir {folder}/there")):
        command._say_where_processes_start(files, RuntimeOptions())
        output = capsys.readouterr().err
        assert words in output if words else output == ""


@pytest.mark.parametrize(
    ("kept", "hint"),
    [(True, "The result is in run/result.json."), (False, "The part of the result that was written is in run.")],
)
def test_a_result_is_printed_or_if_it_finds_no_room_it_is_told_where_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kept: bool, hint: str
) -> None:
    assert command._print_json(RunResult(RunOutcome.TIMED_OUT, 1.0, "run", (), BEGAN), Path("run")) is None
    assert json.loads(capsys.readouterr().out)["exitCode"] == 124
    (folder / "run").mkdir()
    if kept:
        (folder / "run" / "result.json").touch()
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        error = command._print_json(RunResult(RunOutcome.SUCCEEDED, 1.0, "run", (), BEGAN), Path("run"))
    assert error.message.endswith("(No space left on device), but the run ended: Succeeded")
    assert (error.hint, error.exit_code) == (hint, 1)
