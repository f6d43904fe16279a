"""The Go operator's validation scenarios, replayed: the API server itself refuses what its webhook refuses.

And what that webhook lets through although nothing good can come of it (unknown types, negative numbers, null).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.cluster import Cluster, Json, tfjob
from tfoperator.kube.errors import InvalidError

pytestmark = pytest.mark.controlplane


def worker(manifest: Json) -> Json:
    found: Json = manifest["spec"]["tfReplicaSpecs"]["Worker"]
    return found


def with_container(**fields: Any) -> Callable[[Json], None]:
    def change(manifest: Json) -> None:
        container = {"name": "tensorflow", "image": "example.invalid/train:1", **fields}
        worker(manifest)["template"] = {"spec": {"containers": [container]}}

    return change


def with_replicas(**replicas: Any) -> Callable[[Json], None]:
    def change(manifest: Json) -> None:
        manifest["spec"]["tfReplicaSpecs"].update(replicas)

    return change


def with_policy(**policy: Any) -> Callable[[Json], None]:
    def change(manifest: Json) -> None:
        manifest["spec"]["runPolicy"] = policy

    return change


def without_containers(manifest: Json) -> None:
    worker(manifest)["template"] = {"spec": {"containers": []}}


def named(name: str) -> Callable[[Json], None]:
    def change(manifest: Json) -> None:
        manifest["metadata"]["name"] = name

    return change


def with_chief_and_master(manifest: Json) -> None:
    replicas = manifest["spec"]["tfReplicaSpecs"]
    replicas["Chief"] = replicas["Master"] = worker(manifest)


def without_replicas(manifest: Json) -> None:
    manifest["spec"]["tfReplicaSpecs"] = {}


REFUSED: dict[str, tuple[Callable[[Json], None], str]] = {
    "a name that is no DNS-1035 label": (named("0-test"), "metadata.name"),
    "no containers": (without_containers, "containers"),
    "an empty image": (with_container(image=""), "image"),
    "no container called tensorflow": (with_container(name="trainer"), "tensorflow"),
    "chief and master": (with_chief_and_master, "Chief and Master"),
    "somebody unknown in charge": (with_policy(managedBy="other-job-controller"), "managedBy"),
    # Beyond the Go operator.
    "no replica types": (without_replicas, "tfReplicaSpecs"),
    "an unknown replica type": (with_replicas(Gpu={"replicas": 1}), "tfReplicaSpecs"),
    "a template that is null": (with_replicas(Worker={"replicas": 1, "template": None}), "template"),
    "fewer than no replicas": (with_replicas(Worker={"replicas": -1}), "replicas"),
    "an unknown restart policy": (with_replicas(Worker={"restartPolicy": "Sometimes"}), "restartPolicy"),
    "an unknown clean pod policy": (with_policy(cleanPodPolicy="Some"), "cleanPodPolicy"),
    "a negative deadline": (with_policy(activeDeadlineSeconds=-1), "activeDeadlineSeconds"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_job_is_refused_with_the_field(cluster: Cluster, what: str) -> None:
    change, field = REFUSED[what]
    manifest = tfjob("bad", Worker=1)
    change(manifest)
    with pytest.raises(InvalidError, match=field):
        cluster.submit(manifest)


@pytest.mark.parametrize(
    "change",
    [
        named("mnist-2"),
        with_policy(managedBy="kubeflow.org/training-operator"),
        with_policy(managedBy="kueue.x-k8s.io/multikueue"),
        with_container(ports=[{"name": "tfjob-port", "containerPort": 2222}]),
    ],
)
def test_a_good_job_is_let_in(cluster: Cluster, change: Callable[[Json], None]) -> None:
    manifest = tfjob("good", Worker=1)
    change(manifest)
    assert cluster.submit(manifest)["metadata"]["uid"]


def test_a_replica_type_that_is_null_is_as_good_as_absent(cluster: Cluster) -> None:
    # It panics the Go operator.
    manifest = tfjob("null", Worker=1)
    with_replicas(PS=None)(manifest)
    assert set(cluster.submit(manifest)["spec"]["tfReplicaSpecs"]) == {"Worker"}
