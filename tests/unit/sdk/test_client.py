from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import decode, tfjob
from tests.support.jobs import submitted_manifest
from tests.support.served import ServedWorld
from tfoperator.api.loading import ManifestError
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import Client, load_config
from tfoperator.kube.protocol.errors import ConfigError
from tfoperator.sdk import JobAlreadyExists, JobEnded, JobInvalid, NamespaceNotFound, TFJobClient


def test_a_job_is_created_from_whatever_describes_it(world: ServedWorld, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(submitted_manifest("from-path"))
    made = [
        world.sdk.create_job(tfjob("from-dict", Worker=1)),
        world.sdk.create_job(path),
        world.sdk.create_job(str(path), name="from-string"),
        world.sdk.create_job(submitted_manifest("from-text")),
        world.sdk.create_job(world.sdk.get_job("from-path"), "from-view"),
    ]
    names = ["from-dict", "from-path", "from-string", "from-text", "from-view"]
    assert [job.metadata.name for job in made] == names
    assert sorted(job.metadata.name for job in world.sdk.list_jobs()) == sorted(names)
    assert world.job("from-view")["spec"] == world.job("from-path")["spec"]


def test_the_namespace_of_the_call_goes_first_then_that_of_the_manifest(world: ServedWorld) -> None:
    body = tfjob("a", Worker=1)
    body["metadata"]["namespace"] = "default"
    elsewhere = world.sdk.create_job(body, name=world.namespace)
    assert elsewhere.metadata.namespace == "default"
    assert world.sdk.create_job(body, namespace=world.namespace).metadata.namespace == world.namespace
    everywhere = world.sdk.list_jobs(all_namespaces=True)
    assert {"default", world.namespace} <= {job.metadata.namespace for job in everywhere}
    world.sdk.delete_job(world.namespace, "default")


def test_refusals_name_the_job_its_namespace_and_the_field_and_a_dry_run_keeps_nothing(world: ServedWorld) -> None:
    for dry_run in (True, False):
        with pytest.raises(JobInvalid) as invalid:
            world.sdk.create_job(tfjob("mnist", Worker=-1), dry_run=dry_run)
        assert f"TFJob mnist in namespace {world.namespace} is not valid:" in str(invalid.value)
        assert "spec.tfReplicaSpecs" in invalid.value.causes[0].field
    assert world.sdk.create_job(tfjob("mnist", Worker=1), dry_run=True).metadata.uid
    assert world.sdk.list_jobs() == []
    world.submit()
    with pytest.raises(JobAlreadyExists, match=f"namespace {world.namespace} already has a TFJob mnist"):
        world.sdk.create_job(tfjob("mnist", Worker=1))
    with pytest.raises(NamespaceNotFound, match="namespace nowhere does not exist"):
        world.sdk.create_job(tfjob("mnist", Worker=1), namespace="nowhere")


def test_arguments_that_make_no_sense_are_refused_before_anything_is_sent(world: ServedWorld, tmp_path: Path) -> None:
    two = tmp_path / "two.yaml"
    two.write_text(f"{submitted_manifest('a')}---\n{submitted_manifest('b')}")
    refused: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
        (ValueError, "either a job or a train_func", ()),
        (ValueError, "needs a name", ({"spec": {}},)),
        (ValueError, "this is a Pod", ({"kind": "Pod", "metadata": {"name": "a"}},)),
        (ManifestError, "contains 2 objects, but must contain exactly one TFJob", (two,)),
        (ManifestError, "no such file", (tmp_path / "none.yaml",)),
    ]
    for error, words, given in refused:
        with pytest.raises(error, match=words):
            world.sdk.create_job(*given)


def test_the_conditions_can_be_asked_one_by_one(world: ServedWorld) -> None:
    world.submit()
    for condition in ("Created", "Running", "Restarting", "Suspended"):
        world.becomes(condition)
    world.becomes("Running", status="False")
    sdk = world.sdk
    assert [c.type for c in sdk.get_job_conditions("mnist")] == ["Created", "Restarting", "Suspended", "Running"]
    assert [is_so("mnist") for is_so in (sdk.is_job_created, sdk.is_job_restarting, sdk.is_job_suspended)] == [True] * 3
    assert [is_so("mnist") for is_so in (sdk.is_job_running, sdk.is_job_succeeded, sdk.is_job_failed)] == [False] * 3


def test_pods_are_chosen_by_role_type_and_index_in_a_sensible_order(world: ServedWorld) -> None:
    world.submit(PS=1, Worker=11)
    for replica in ("worker-10", "ps-0", "worker-2", "worker-0"):
        world.pod(replica)
    names = world.sdk.get_job_pod_names
    assert names("mnist") == ["mnist-worker-0", "mnist-worker-2", "mnist-worker-10", "mnist-ps-0"]
    assert names("mnist", is_master=True) == ["mnist-worker-0"]
    assert names("mnist", replica_type="worker", replica_index=2) == ["mnist-worker-2"]
    assert names("mnist", replica_index=0) == ["mnist-worker-0", "mnist-ps-0"]
    assert names("mnist", replica_type="Chief") == []
    with pytest.raises(ValueError, match="'boss' is not a replica type; the types are PS, Worker"):
        names("mnist", replica_type="boss")


def test_the_type_to_scale_may_be_written_in_any_case(world: ServedWorld) -> None:
    world.submit(PS=1, Worker=2)
    world.sdk.scale_job("mnist", {"ps": 3})
    assert world.job()["spec"]["tfReplicaSpecs"]["PS"]["replicas"] == 3


def test_a_job_that_has_ended_is_not_changed_any_more(world: ServedWorld) -> None:
    world.submit(condition="Succeeded")
    for change in (world.sdk.suspend_job, world.sdk.resume_job, lambda name: world.sdk.scale_job(name, 3)):
        with pytest.raises(JobEnded, match=r"has already ended \(Succeeded\), so it can't be changed"):
            change("mnist")


def test_an_update_leaves_alone_what_it_does_not_mention(world: ServedWorld) -> None:
    world.submit(labels={"a": "1"})
    meta = {"name": "mnist", "labels": {"b": "2"}}
    world.sdk.update_job({"metadata": meta, "spec": {"runPolicy": {"backoffLimit": 3}}})
    world.sdk.patch_job("mnist", {"metadata": {"labels": {"a": None}}})
    job = world.job()
    assert job["metadata"]["labels"] == {"b": "2"}
    assert job["spec"]["runPolicy"]["backoffLimit"] == 3
    assert job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 2


def test_events_are_those_of_the_job_and_its_parts_oldest_first(world: ServedWorld) -> None:
    world.submit()
    world.event("TFJob", "mnist", "Second", "2", lastTimestamp="2099-01-01T00:00:02Z", count=4)
    world.event("Pod", "mnist-worker-0", "First", "1", lastTimestamp="2099-01-01T00:00:01Z", warning=True)
    world.event("Service", "mnist-worker-0", "Third", "3", lastTimestamp="2099-01-01T00:00:03Z")
    world.event("Pod", "mnist-worker-0", "Earlier", "of a job of the same name", lastTimestamp="2020-01-01T00:00:00Z")
    world.event("Pod", "mnist-2-worker-0", "Foreign", "of another job")
    world.event("TFJob", "mnist-2", "Foreign", "of another job")
    events = world.sdk.get_job_events("mnist")
    assert [event.reason for event in events] == ["First", "Second", "Third"]
    assert [event.subject for event in events] == ["pod/mnist-worker-0", "tfjob/mnist", "service/mnist-worker-0"]
    assert [event.times for event in events] == [1, 4, 1]
    assert events[0].type == "Warning"


def test_the_configuration_decides_and_a_given_connection_stays_open(world: ServedWorld, tmp_path: Path) -> None:
    with TFJobClient(str(world.kubeconfig)) as client:
        assert client.namespace == world.namespace
        assert client.create_job(tfjob("mnist", Worker=1)).metadata.namespace == world.namespace
    with pytest.raises(ConfigError, match="'nope', which does not exist"):
        TFJobClient(str(world.kubeconfig), context="nope")
    with pytest.raises(ConfigError, match="does not exist, or is not a file"):
        TFJobClient(str(tmp_path / "none"))
    with Client(load_config(str(world.kubeconfig))) as api:
        with TFJobClient(client=api) as client:
            client.get_job("mnist", world.namespace)
        assert api.get(TFJOBS, world.namespace, "mnist", decode)
