"""Jobs whose workers come and go: by the scale subresource, as an autoscaler does it."""

from __future__ import annotations

import pytest

from tests.support.cluster import Json, decode
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import ListOptions
from tfoperator.kube.resources import PODS

pytestmark = pytest.mark.controlplane

DYNAMIC: Json = {"enableDynamicWorker": True}


def scale_of(job: JobOnCluster) -> Json:
    """What an autoscaler reads: a patch that changes nothing answers with the Scale."""
    return job.cluster.client.patch(TFJOBS, job.cluster.namespace, job.name, {}, decode, subresource="scale")


def test_an_autoscaler_finds_the_worker_pods_and_changes_their_number(operated: Operated) -> None:
    job = operated.running("scaled", spec=DYNAMIC, restart_policy="ExitCode", PS=1, Worker=2)
    scale = scale_of(job)
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 2}, 2)

    selected = job.cluster.client.list(
        PODS, job.cluster.namespace, decode, ListOptions(label_selector=scale["status"]["selector"])
    ).items
    assert {pod["metadata"]["name"] for pod in selected} == {"scaled-worker-0", "scaled-worker-1"}

    job.cluster.client.patch(
        TFJOBS, job.cluster.namespace, job.name, {"spec": {"replicas": 3}}, decode, subresource="scale"
    )
    job.wait_pods("ps-0", "worker-0", "worker-1", "worker-2")
    job.play("Running", "worker-2")
    eventually(lambda: scale_of(job)["status"]["replicas"] == 3, every=0.05, what="three workers run")
    job.cluster.client.patch(
        TFJOBS, job.cluster.namespace, job.name, {"spec": {"replicas": 1}}, decode, subresource="scale"
    )
    job.wait_pods("ps-0", "worker-0")
    assert job.state() == "Running"
    assert job.restarts() == 0
