"""The Go operator's control scenarios, replayed: whose pods and services are whose."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.cluster import Cluster, Json, decode
from tests.support.eventually import eventually
from tests.support.manifests import config_map, owner_reference, pod
from tests.support.operated import Operated
from tfoperator.api.names import LABEL_JOB_NAME, LABEL_OPERATOR_NAME, LABEL_REPLICA_INDEX, replica_labels
from tfoperator.api.v1.types import ReplicaType
from tfoperator.kube.errors import ConflictError, NotFoundError
from tfoperator.kube.resources import CONFIG_MAPS, PODS, SERVICES

pytestmark = pytest.mark.controlplane


def make_pod(cluster: Cluster, name: str, labels: dict[str, str], owner: Json | None = None) -> Json:
    return cluster.client.create(PODS, cluster.namespace, pod(name, labels, *([owner] if owner else [])), decode)


def make_service(cluster: Cluster, name: str, labels: dict[str, str]) -> Json:
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"clusterIP": "None", "selector": labels, "ports": [{"name": "tfjob-port", "port": 2222}]},
    }
    return cluster.client.create(SERVICES, cluster.namespace, body, decode)


def some_owner(cluster: Cluster, name: str) -> Json:
    """A reference to an object that exists: the garbage collector deletes what belongs to nobody."""
    made = cluster.client.create(CONFIG_MAPS, cluster.namespace, config_map(name), decode)
    return owner_reference(made, controller=True)


def labels_of(job: str, index: int = 0) -> dict[str, str]:
    return replica_labels(job, ReplicaType.WORKER, index, is_master=index == 0)


def owners(cluster: Cluster, pod: str) -> set[str]:
    return {str(owner["uid"]) for owner in cluster.pods()[pod]["metadata"].get("ownerReferences") or ()}


def relabel(cluster: Cluster, pod: str, labels: dict[str, str | None]) -> None:
    cluster.client.patch(PODS, cluster.namespace, pod, {"metadata": {"labels": labels}}, decode)


def test_orphans_with_the_jobs_labels_are_adopted(operated: Operated) -> None:
    pod = make_pod(operated.cluster, "adopts-worker-0", labels_of("adopts"))
    service = make_service(operated.cluster, "adopts-worker-0", labels_of("adopts"))
    job = operated.job("adopts", Worker=2)
    job.wait_pods("worker-0", "worker-1")
    job.wait_services("worker-0", "worker-1")
    assert job.pod_uid("worker-0") == pod["metadata"]["uid"]
    assert job.services()["worker-0"]["metadata"]["uid"] == service["metadata"]["uid"]


def test_an_orphan_that_comes_later_is_adopted_and_scaled_away_where_it_is_one_too_many(operated: Operated) -> None:
    job = operated.job("later", Worker=1)
    job.wait_pods("worker-0")
    make_pod(operated.cluster, "later-worker-7", labels_of("later", 7))
    job.wait_reasons("SuccessfulDeletePod")
    job.wait_pods("worker-0")
    assert "later-worker-7" not in operated.cluster.pods()


def test_what_belongs_to_another_owner_is_left_alone_and_counts_for_nothing(operated: Operated) -> None:
    owner = some_owner(operated.cluster, "other-owner")
    make_pod(operated.cluster, "theirs", labels_of("respects", 1), owner)
    job = operated.job("respects", Worker=2)
    job.wait_pods("worker-0", "worker-1")
    operated.cluster.set_phase("theirs", "Failed")
    operated.settle()
    assert owners(operated.cluster, "theirs") == {owner["uid"]}
    assert job.state() == "Created"


def test_what_an_earlier_job_of_the_same_name_left_is_waited_for_and_not_inherited(operated: Operated) -> None:
    first = operated.running("twice", Worker=1)
    first.bind("worker-0")
    old, service = first.pod_uid("worker-0"), str(first.services()["worker-0"]["metadata"]["uid"])
    first.delete()
    second = operated.job("twice", Worker=1)
    # The garbage collector's work. It needs half a minute to hear of a new kind, and later may be quicker than we.
    operated.cluster.delete_pod("twice-worker-0")
    with suppress(NotFoundError, ConflictError):
        operated.cluster.client.delete(SERVICES, operated.cluster.namespace, "twice-worker-0", uid=service)
    second.wait_services("worker-0")
    operated.settle()
    assert not second.pods(), "the old one terminates, and still has the name"
    operated.cluster.end_pod("twice-worker-0")
    second.wait_successor("worker-0", of=old)
    assert second.restarts() == 0
    second.wait_reasons("SuccessfulCreatePod")
    assert "FailedCreatePod" not in second.reasons()


@pytest.mark.parametrize("label", [LABEL_JOB_NAME, LABEL_OPERATOR_NAME])
def test_a_pod_whose_labels_are_taken_off_is_released_and_replaced_once_it_is_out_of_the_way(
    operated: Operated, label: str
) -> None:
    job = operated.running(f"releases-{label.rpartition('/')[2]}", restart_policy="ExitCode", Worker=2)
    freed, pod = job.pod_uid("worker-1"), job.pod_name("worker-1")
    relabel(operated.cluster, pod, {label: None})
    eventually(lambda: not owners(operated.cluster, pod), every=0.05, what="it is released")
    job.wait_reasons("FailedCreatePod")
    assert not job.cluster.has_condition(job.name, "Failed")
    operated.cluster.delete_pod(pod)
    job.wait_successor("worker-1", of=freed)


@pytest.mark.parametrize("index", ["none", "0"])
def test_a_pod_whose_replica_label_is_changed_breaks_nothing_and_is_told_of(operated: Operated, index: str) -> None:
    # An odd index panics the Go operator; 0 makes it a second pod of another replica, which is deleted.
    job = operated.running(f"relabelled-{index}", restart_policy="ExitCode", Worker=2)
    changed, pod = job.pod_uid("worker-1"), job.pod_name("worker-1")
    relabel(operated.cluster, pod, {LABEL_REPLICA_INDEX: index})
    if index == "none":
        job.wait_reasons("FailedCreatePod")
        assert job.pod_uid("worker-1") == changed
        operated.cluster.delete_pod(pod)
    job.wait_successor("worker-1", of=changed)
    assert not job.cluster.has_condition(job.name, "Failed")
