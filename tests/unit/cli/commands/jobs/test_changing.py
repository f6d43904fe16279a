import json
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import decode
from tests.support.fake_api import api_error
from tests.support.jobs import submitted_manifest
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import ConnectionRefused
from tfoperator.sdk import TFJobClient


def test_jobs_are_suspended_and_resumed_unless_they_have_ended(tell: Tell, world: ServedWorld) -> None:
    world.submit("a")
    world.submit("b")
    assert tell("suspend", "a", "b").out == "tfjob.kubeflow.org/a suspended\ntfjob.kubeflow.org/b suspended\n"
    assert world.job("b")["spec"]["runPolicy"]["suspend"] is True
    assert json.loads(tell("resume", "b", "-o", "json").out)["spec"]["runPolicy"]["suspend"] is False
    assert len(json.loads(tell("resume", "a", "b", "-o", "json").out)["items"]) == 2
    world.becomes("Succeeded", "a")
    result = tell("suspend", "a", "b", "-o", "name")
    assert (result.code, result.out) == (1, "tfjob.kubeflow.org/b\n")
    assert "TFJob a" in result.err
    assert "has already ended (Succeeded)" in result.err


def test_workers_and_other_types_are_scaled_but_not_those_that_the_job_lacks(tell: Tell, world: ServedWorld) -> None:
    world.submit(PS=1, Worker=2)
    result = tell("scale", "mnist", "--workers", "4", "--replicas", "ps=2")
    assert (result.code, result.out, result.err) == (0, "tfjob.kubeflow.org/mnist scaled\n", "")
    specs = world.job()["spec"]["tfReplicaSpecs"]
    assert (specs["Worker"]["replicas"], specs["PS"]["replicas"]) == (4, 2)
    assert (
        "has no Chief replicas; its types are PS, Worker" in tell("scale", "mnist", "--replicas", "Chief=1", code=1).err
    )
    world.status({"startTime": "2026-01-01T00:00:00Z"})
    assert "neither enableDynamicWorker nor elasticPolicy, so" in tell("scale", "mnist", "--workers", "3").err, (
        "they will not notice"
    )


def test_jobs_are_deleted_by_name_and_a_missing_one_does_not_keep_the_others(tell: Tell, world: ServedWorld) -> None:
    for name in "abc":
        world.submit(name)
    result = tell("delete", "a", "b", "--wait")
    assert (result.code, result.out) == (0, "tfjob.kubeflow.org/a deleted\ntfjob.kubeflow.org/b deleted\n")
    assert "there is no TFJob a" in tell("delete", "a", "c", code=1).err
    assert world.sdk.list_jobs() == []
    assert tell("delete", "a", "--ignore-not-found").code == 0


def test_the_jobs_of_a_manifest_are_deleted_and_nothing_else(tell: Tell, world: ServedWorld, tmp_path: Path) -> None:
    world.submit()
    settings = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
    path = tmp_path / "job.yaml"
    path.write_text(f"{settings}---\n{submitted_manifest()}")
    result = tell("delete", "-f", str(path), "-o", "json")
    assert json.loads(result.out) == {"deleted": [{"name": "mnist", "namespace": world.namespace}]}
    assert "ConfigMap settings is skipped: it is not a TFJob" in result.err
    assert world.sdk.list_jobs() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["delete"], "give either names of jobs or manifests"),
        (["delete", "a", "-f", "x.yaml"], "give either names of jobs or manifests"),
        *(
            (["scale", "mnist", *options], "")
            for options in ([], ["--workers", "-1"], ["--replicas", "PS"], ["--replicas", "Boss=1"])
        ),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(tell: Tell, arguments: list[str], words: str) -> None:
    assert words in tell(*arguments, code=2).err


FORBIDDEN = api_error(403, "Forbidden", "no")
AWAY = ConnectionRefused("the server is away")


def refuse(monkeypatch: pytest.MonkeyPatch, method: str, error: Exception) -> None:
    """Let the client refuse this method for the job b."""
    real = getattr(TFJobClient, method)

    def call(self: TFJobClient, name: str, *arguments: object) -> object:
        if name == "b":
            raise error
        return real(self, name, *arguments)

    monkeypatch.setattr(TFJobClient, method, call)


@pytest.mark.parametrize(("error", "changed"), [(FORBIDDEN, ["a", "c"]), (AWAY, ["a"])])
def test_changes_before_a_refused_one_are_in_the_answer_and_others_follow_unless_the_server_is_away(
    tell: Tell, world: ServedWorld, monkeypatch: pytest.MonkeyPatch, error: Exception, changed: list[str]
) -> None:
    for name in "abc":
        world.submit(name)
    for method, command in (("suspend_job", "suspend"), ("delete_job", "delete")):
        refuse(monkeypatch, method, error)
        result = tell(command, "a", "b", "c", "-o", "json", code=1)
        answer = json.loads(result.out)
        names = answer["deleted"] if command == "delete" else [job["metadata"] for job in answer["items"]]
        assert [job["name"] for job in names] == changed
        assert str(error) in result.err


def test_jobs_whose_deletion_takes_too_long_are_in_the_answer(tell: Tell, world: ServedWorld) -> None:
    world.submit("a")
    world.client.patch(TFJOBS, world.namespace, "a", {"metadata": {"finalizers": ["example.com/slow"]}}, decode)
    result = tell("delete", "a", "gone", "--wait", "--timeout", "0.2s", "-o", "json", code=1)
    assert [job["name"] for job in json.loads(result.out)["deleted"]] == ["a"]
    assert "there is no TFJob gone" in result.err
    assert "is still there" in result.err
    assert tell("delete", "a", "--wait", "--timeout", "0.2s", code=124).out == "tfjob.kubeflow.org/a deleted\n"
