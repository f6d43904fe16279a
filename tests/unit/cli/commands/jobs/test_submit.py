import errno
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import tfjob
from tests.support.eventually import eventually
from tests.support.jobs import soon, submitted_manifest
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Run, Tell
from tfoperator.kube.protocol.resources import CONFIG_MAPS
from tfoperator.sdk import TFJobClient


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(submitted_manifest())
    return str(path)


def test_a_job_is_created_in_the_contexts_namespace_or_it_is_said_what_to_do(
    tell: Tell, world: ServedWorld, manifest: str
) -> None:
    result = tell("submit", manifest)
    assert (result.code, result.out, result.err) == (0, f"tfjob.kubeflow.org/mnist created in {world.namespace}\n", "")
    assert world.job()["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 2
    result = tell("submit", manifest, "-n", "nowhere", code=1)
    assert "Create it with: kubectl create namespace nowhere" in result.err
    result = tell("submit", manifest, code=1)
    assert result.err == (
        f"tfoperator: namespace {world.namespace} already has a TFJob mnist\nChoose another name, or delete the "
        f"existing object first: tfoperator delete mnist -n {world.namespace}\n"
    )


def test_it_says_what_it_made_to_programs_and_waiting_in_vain_is_exit_code_124(tell: Tell, manifest: str) -> None:
    assert tell("submit", manifest, "-o", "name", "--dry-run=server").out == "tfjob.kubeflow.org/mnist\n"
    made = json.loads(tell("submit", manifest, "-o", "json", "--wait", "--timeout", "0.2s", code=124).out)
    assert made["metadata"]["uid"]
    assert "managedFields" not in made["metadata"]


@pytest.mark.parametrize("where", ["client", "server"])
def test_a_dry_run_creates_nothing(tell: Tell, world: ServedWorld, manifest: str, where: str) -> None:
    result = tell("submit", manifest, f"--dry-run={where}")
    assert (result.code, result.out) == (0, f"tfjob.kubeflow.org/mnist created ({where} dry run)\n")
    assert world.sdk.list_jobs() == []


def test_a_check_here_needs_no_cluster(run: Run, manifest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", f"{manifest}.none")
    made = json.loads(run("submit", manifest, "--dry-run=client", "-o", "json", code=0).out)
    assert made["metadata"] == {"name": "mnist", "namespace": "default"}
    assert run("submit", manifest, "--dry-run=server", code=2).err
    assert run("submit", manifest, "--dry-run=client", "--context", "far", code=2).err
    monkeypatch.setenv("KUBECONFIG", f"{manifest}.missing")
    assert "no such file" in run("submit", manifest, "--dry-run=client", code=2).err


def test_what_the_job_needs_is_created_too_and_what_is_left_out_is_named(
    tell: Tell, world: ServedWorld, tmp_path: Path
) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}}
    job = tfjob("mnist", Worker=1)
    job["spec"]["cleanPodPolicy"] = "All"
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([settings, quota, job]))
    result = tell("submit", str(path), code=0)
    assert "all.yaml:" in result.err
    assert (
        "spec.cleanPodPolicy: is unknown: kubectl refuses it, other clients ignore it; it belongs in spec.runPolicy"
        in result.err
    )
    assert world.client.get(CONFIG_MAPS, world.namespace, "settings", json.loads)["data"] == {"a": "b"}
    assert "ResourceQuota quota is skipped; create it with kubectl apply" in result.err
    world.sdk.delete_job("mnist")
    assert "ConfigMap settings already exists, and is not changed" in tell("submit", str(path)).err


def test_an_older_version_is_submitted_as_v1_also_from_standard_input(
    tell: Tell, world: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tfjob("mnist", Worker=3) | {"apiVersion": "kubeflow.org/v1alpha2"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(old).encode())))
    result = tell("submit", "-", code=0)
    assert "v1alpha2 is read as kubeflow.org/v1" in result.err
    assert world.job()["apiVersion"] == "kubeflow.org/v1"


def test_waiting_ends_with_the_jobs_result(tell: Tell, world: ServedWorld, manifest: str) -> None:
    def submitted() -> None:
        eventually(lambda: world.sdk.list_jobs(), within=60, every=0.1, what="the job is submitted")

    with soon(submitted, lambda: world.becomes("Succeeded")):
        result = tell("submit", manifest, "--wait", "-o", "json", code=0)
    assert json.loads(result.out)["status"]["conditions"][0]["type"] == "Succeeded"
    world.sdk.delete_job("mnist")
    with soon(submitted, lambda: world.becomes("Failed", message="worker 1 failed")):
        result = tell("submit", manifest, "--wait", code=1)
    assert "worker 1 failed" in result.err
    assert f"tfoperator logs mnist -n {world.namespace} --all-replicas" in result.err


def test_what_contradicts_itself_or_has_no_meaning_is_refused(
    tell: Tell, tmp_path: Path, manifest: str, world: ServedWorld
) -> None:
    job = tfjob("mnist", Worker=1)
    job["metadata"]["namespace"] = "here"
    path = tmp_path / "jobs.yaml"
    path.write_text(f"{submitted_manifest('good')}---\n{submitted_manifest('bad', Worker=-1)}")
    result = tell("submit", str(path), code=1)
    assert "spec.tfReplicaSpecs[Worker].replicas" in result.err
    assert "Nothing was submitted." in result.err
    path.write_text(yaml.safe_dump(job))
    result = tell("submit", str(path), "-n", "there", code=2)
    assert "TFJob mnist has namespace here, but --namespace is there: make them equal" in result.err
    for command in (["submit", manifest], ["delete", "mnist"]):
        result = tell(*command, "--timeout", "5s", code=2)
        assert "--timeout: needs --wait" in " ".join(result.err.split())
    assert world.sdk.list_jobs() == []


def test_the_output_of_replicas_is_never_mixed_with_json(tell: Tell, world: ServedWorld, manifest: str) -> None:
    for option in ("--follow", "--attached"):
        assert "-o json is not possible" in tell("submit", manifest, option, "-o", "json", code=2).err
    assert world.sdk.list_jobs() == []


def test_jobs_that_were_created_before_a_refused_one_are_in_the_answer(
    tell: Tell, world: ServedWorld, tmp_path: Path
) -> None:
    world.submit("second")
    path = tmp_path / "jobs.yaml"
    path.write_text(f"{submitted_manifest('first', Worker=1)}---\n{submitted_manifest('second', Worker=1)}")
    result = tell("submit", str(path), "-o", "json", code=1)
    assert json.loads(result.out)["metadata"]["name"] == "first"
    assert "already has a TFJob second" in result.err


@pytest.mark.parametrize("option", ["--follow", "--attached"])
def test_a_closed_pipe_is_as_ctrl_c(
    tell: Tell, world: ServedWorld, manifest: str, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    def stream(*_: object, **__: object) -> Any:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(TFJobClient, "stream_job_logs", stream)
    result = tell("submit", manifest, option, code=1)
    attached = option == "--attached"
    assert ("TFJob mnist is deleted" if attached else "TFJob mnist is still running") in result.err
    assert len(world.sdk.list_jobs()) == (not attached)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src/train.py").touch()
    (tmp_path / "outside.py").touch()
    monkeypatch.chdir(work)
    return work


def test_a_program_becomes_a_job_of_the_cluster(tell: Tell, world: ServedWorld, work: Path) -> None:
    (work / "needs.txt").touch()
    (work / ".env").touch()
    (work / ".tfoperator/runs").mkdir(parents=True)
    options = ("--workers=2", "--ps=1", "--env=A=b", "--image=tf:1", "--pip=needs.txt", "--name=mnist")
    result = tell("submit", "src/train.py", *options, code=0)
    assert result.out == f"tfjob.kubeflow.org/mnist created in {world.namespace}\n"
    assert " (files: 3, 0.0 MiB when packed)" in result.err
    assert "warning: these files may be secrets: .env;" in result.err
    specs = world.job()["spec"]["tfReplicaSpecs"]
    assert {kind: spec["replicas"] for kind, spec in specs.items()} == {"PS": 1, "Worker": 2}
    pod = specs["Worker"]["template"]["spec"]
    [container] = pod["containers"]
    assert (container["image"], container["env"]) == ("tf:1", [{"name": "A", "value": "b"}])
    assert container["command"][5:] == ["needs.txt", "python", "src/train.py"]
    assert "terminationGracePeriodSeconds" not in pod


def test_a_manifest_gets_a_folder_where_one_is_named(tell: Tell, world: ServedWorld, work: Path, manifest: str) -> None:
    assert "travel" not in tell("submit", manifest, "--dry-run=server", code=0).err
    assert "(files: 1, 0.0 MiB" in tell("submit", manifest, "--workdir=.", code=0).err
    assert world.client.list(CONFIG_MAPS, world.namespace, json.loads).items


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["../outside.py"], "../outside.py is not copied from .: it is not in this folder"),
        (["src/train.py", "--pip=../outside.py"], "../outside.py is not copied"),
        (["src/train.py", "--pip=missing.txt"], "missing.txt is not copied"),
        (["src/train.py", "--workdir=src", "--pip=needs.txt"], "../needs.txt is not copied from src"),
        (["src/train.py", "--emit-yaml"], "--emit-yaml is an option of `tfoperator run`"),
        (["src/train.py", "--checkpoint=kept"], "--checkpoint: this folder is on this machine only"),
        (["job.yaml", "--ps=1"], "--ps: this option is for a program"),
    ],
)
def test_what_can_not_travel_is_refused(
    tell: Tell, world: ServedWorld, work: Path, words: list[str], message: str
) -> None:
    result = tell("submit", *words)
    assert result.code in (1, 2)
    assert message in result.err
    assert world.sdk.list_jobs() == []


def test_options_of_the_program_itself_have_their_place(run: Tell, work: Path) -> None:
    result = run("submit", "src/train.py", "--epochs", "3", code=2)
    assert "Put options of src/train.py itself after --: tfoperator submit src/train.py -- --epochs 3" in result.err
    for words in (("run", "src/train.py", "--workers", "x"), ("pipeline", "run", "src/train.py", "--epochs", "3")):
        assert "itself after" not in run(*words, code=2).err
