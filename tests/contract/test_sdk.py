"""TFJobClient means the same to both servers."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.contract.support import CONFIG_MAPS, Space, decode, nothing_left, pod, tfjob
from tests.support.eventually import eventually
from tests.support.jobs import JobWorld, soon
from tfoperator.kube import PODS, InvalidError, Resource
from tfoperator.sdk import (
    JobAlreadyExists,
    JobDeleted,
    JobFailed,
    JobInvalid,
    JobNotFound,
    NamespaceNotFound,
    NotInstalled,
    TFJobClient,
    WaitTimeout,
)
from tfoperator.sdk.states import job_state
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
    assert [found.metadata.name for found in sdk.list_jobs(label_selector="a=1")] == ["mnist"]
    sdk.delete_job("mnist")
    sdk.wait_for_job_deletion("mnist", wait_timeout=100)
    with pytest.raises(JobNotFound):
        sdk.get_job("mnist")


def test_a_function_becomes_a_job_that_the_server_accepts(sdk: TFJobClient) -> None:
    def train(parameters: dict[str, int]) -> None:
        print(parameters["steps"])

    sdk.create_job(
        name="function",
        train_func=train,
        base_image="tensorflow/tensorflow:2.18.0-gpu",
        parameters={"steps": 3},
        num_ps_replicas=1,
        num_workers=2,
        resources_per_worker={"cpu": 1, "memory": "1Gi", "gpu": 1},
        packages_to_install=["keras"],
        env_vars={"A": "b"},
    )
    template = sdk.get_job("function").spec.tf_replica_specs["Worker"]
    assert template is not None
    assert b"nvidia.com/gpu" in bytes(template.template)


def test_a_folder_belongs_to_all_jobs_that_were_sent_with_it(sdk: TFJobClient, space: Space, tmp_path: Path) -> None:
    def owners() -> list[list[str]]:
        found = [one["metadata"] for one in space.client.list(CONFIG_MAPS, space.namespace, decode).items]
        owned = [meta["ownerReferences"] for meta in found if meta["name"].startswith("workdir-")]
        return [sorted(owner["name"] for owner in one) for one in owned]

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
        sdk.wait_for_job_conditions("mnist", callback=lambda job: states.append(job_state(job)), wait_timeout=100)
    assert states == ["Pending", "Created", "Running", "Succeeded"]


def test_waiting_ends_with_failure_deletion_and_time(sdk: TFJobClient, world: JobWorld) -> None:
    world.submit("fails")
    with soon(lambda: world.becomes("Failed", "fails", message="no luck")), pytest.raises(JobFailed, match="no luck"):
        sdk.wait_for_job_conditions("fails", wait_timeout=100)
    world.submit("deleted")
    seen = threading.Event()  # one that is gone before was never there
    with soon(lambda: seen.wait(60) and sdk.delete_job("deleted")), pytest.raises(JobDeleted):
        sdk.wait_for_job_conditions("deleted", callback=lambda _: seen.set(), wait_timeout=100)
    world.submit("late")
    with pytest.raises(WaitTimeout):
        sdk.wait_for_job_conditions("late", wait_timeout=0.2)
    with pytest.raises(JobNotFound):
        sdk.wait_for_job_conditions("never", wait_timeout=100)


def test_pods_are_those_of_this_very_job(sdk: TFJobClient, world: JobWorld, space: Space) -> None:
    world.submit(PS=1, Worker=2)
    for replica in ("ps-0", "worker-1", "worker-0"):
        world.pod(replica)
    stranger = pod("mnist-worker-7", space.get(PODS, "mnist-worker-1")["metadata"]["labels"])
    space.create(PODS, stranger)
    assert sdk.get_job_pod_names("mnist") == ["mnist-worker-0", "mnist-worker-1", "mnist-ps-0"]
    assert sdk.get_job_pod_names("mnist", is_master=True) == ["mnist-worker-0"]
    assert sdk.get_job_pod_names("mnist", replica_type="worker", replica_index=1) == ["mnist-worker-1"]


def test_events_are_found_by_what_they_are_about(sdk: TFJobClient, world: JobWorld) -> None:
    world.submit()
    world.event("TFJob", "mnist", "First", "about the job")
    world.event("Pod", "mnist-worker-0", "Second", "about a pod", warning=True)
    world.event("Pod", "other-worker-0", "Foreign", "about another")
    assert {(event.reason, event.type) for event in sdk.get_job_events("mnist")} == {
        ("First", "Normal"),
        ("Second", "Warning"),
    }


def test_the_namespace_is_that_of_the_call(sdk: TFJobClient) -> None:
    sdk.create_job(tfjob("mnist"), namespace="default")
    try:
        assert sdk.list_jobs() == []
        assert sdk.get_job("mnist", "default").metadata.namespace == "default"
    finally:
        sdk.delete_job("mnist", "default")
