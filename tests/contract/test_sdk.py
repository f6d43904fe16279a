"""TFJobClient means the same to both servers."""

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.contract.support import CONFIG_MAPS, Space, decode, nothing_left, tfjob
from tests.support.eventually import eventually
from tests.support.jobs import JobWorld, soon
from tfoperator.kube.protocol.errors import InvalidError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.sdk import JobAlreadyExists, JobInvalid, JobNotFound, NamespaceNotFound, NotInstalled, TFJobClient
from tfoperator.sdk.workdir.delivery import Folder


@pytest.fixture
def world(space: Space) -> JobWorld:
    return JobWorld(space.client, space.namespace)


@pytest.fixture
def sdk(space: Space) -> Iterator[TFJobClient]:
    with nothing_left(), TFJobClient(str(space.kubeconfig), namespace=space.namespace) as client:
        yield client


def test_a_job_lives_and_is_deleted(sdk: TFJobClient, space: Space) -> None:
    made = sdk.create_job(tfjob("mnist", PS=1, Worker=2))
    sdk.create_job(made, name="copy")
    assert [job.metadata.name for job in sdk.list_jobs()] == ["copy", "mnist"]
    assert space.namespace in {job.metadata.namespace for job in sdk.list_jobs(all_namespaces=True)}
    sdk.suspend_job("mnist")
    sdk.scale_job("mnist", {"Worker": 5, "PS": 2})
    sdk.update_job({"metadata": {"name": "mnist", "labels": {"a": "1"}}, "spec": {"runPolicy": {"backoffLimit": 2}}})
    job = sdk.get_job("mnist")
    assert job.spec.run_policy is not None
    assert (job.spec.run_policy.suspend, job.spec.run_policy.backoff_limit) == (True, 2)
    assert {kind: spec.replicas for kind, spec in job.spec.tf_replica_specs.items() if spec} == {"PS": 2, "Worker": 5}
    assert [listed.metadata.name for listed in sdk.list_jobs(label_selector="a=1")] == ["mnist"]
    sdk.delete_job("mnist")
    sdk.wait_for_job_deletion("mnist", wait_timeout=100)
    with pytest.raises(JobNotFound):
        sdk.get_job("mnist")


def test_a_folder_belongs_to_all_jobs_that_were_sent_with_it(sdk: TFJobClient, space: Space, tmp_path: Path) -> None:
    def owners() -> list[list[str]]:
        metadata = [item["metadata"] for item in space.client.list(CONFIG_MAPS, space.namespace, decode).items]
        owned = [meta["ownerReferences"] for meta in metadata if meta["name"].startswith("workdir-")]
        return [sorted(owner["name"] for owner in references) for references in owned]

    (tmp_path / "train.py").write_bytes(os.urandom(1_000_000))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: sdk.create_job(tfjob(name, Worker=1), workdir=tmp_path), "abcdefgh"))
    assert owners() == [list("abcdefgh")]
    for name in "abcdefg":
        sdk.delete_job(name)
    eventually(lambda: owners() == [["h"]], within=60, what="one owner is left")
    sdk.delete_job("h")
    eventually(lambda: owners() == [], within=60, what="nothing is left")


def test_a_name_that_is_taken_by_other_data_is_no_job(sdk: TFJobClient, space: Space, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    taken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": Folder(tmp_path).name}, "immutable": True}
    space.client.create(CONFIG_MAPS, space.namespace, taken, decode)
    with pytest.raises(InvalidError, match="immutable"):
        sdk.create_job(tfjob("a", Worker=1), workdir=tmp_path)
    assert sdk.list_jobs() == []


def test_refusals_have_a_class_each(sdk: TFJobClient) -> None:
    sdk.create_job(tfjob("mnist"))
    with pytest.raises(JobAlreadyExists):
        sdk.create_job(tfjob("mnist"))
    with pytest.raises(JobInvalid, match="replicas"):
        sdk.create_job(tfjob("bad", Worker=-1), dry_run=True)
    with pytest.raises(JobInvalid, match="replicas"):
        sdk.scale_job("mnist", -1)
    with pytest.raises(NamespaceNotFound):
        sdk.create_job(tfjob("mnist"), namespace="nowhere")
    for method in (sdk.get_job, sdk.delete_job, sdk.resume_job, sdk.get_job_pods, sdk.get_job_events):
        with pytest.raises(JobNotFound):
            method("gone")


def test_a_resource_that_the_server_does_not_have_is_not_a_missing_object(
    sdk: TFJobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Resource("kubeflow.org", "v7", "TFJob", "tfjobs")
    monkeypatch.setattr("tfoperator.sdk.job_access.TFJOBS", absent)
    monkeypatch.setattr("tfoperator.sdk.client.TFJOBS", absent)
    for call in (sdk.list_jobs, lambda: sdk.get_job("a"), lambda: sdk.create_job(tfjob("a"))):
        with pytest.raises(NotInstalled):
            call()


def test_waiting_follows_the_job_to_its_end(sdk: TFJobClient, world: JobWorld) -> None:
    world.submit()
    states: list[str] = []

    def goes_on(condition: str, after: str) -> None:
        eventually(lambda: states[-1:] == [after], what=f"{after} was seen")
        world.becomes(condition)

    steps = itertools.pairwise(("Pending", "Created", "Running", "Succeeded"))
    with soon(*[partial(goes_on, condition, after) for after, condition in steps], after=0.0):
        sdk.wait_for_job_conditions("mnist", callback=lambda job: states.append(job.state.word), wait_timeout=100)
    assert states == ["Pending", "Created", "Running", "Succeeded"]
