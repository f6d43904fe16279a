"""The operator with exactly the rights that manifests/base gives it, on an API server that enforces them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane
from tests.e2e.conftest import OPERATOR_USER
from tests.support.cluster import Cluster, decode, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.errors import NotFoundError
from tfoperator.kube.resources import DEPLOYMENTS, LEASES

pytestmark = pytest.mark.controlplane

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests" / "base"


@pytest.fixture(scope="module")
def rights(plane: ControlPlane, admin: object) -> None:
    """Everything of manifests/base; nothing here runs the Deployment's pods."""
    environment = {**os.environ, "HOME": str(plane.folder)}  # kubectl caches discovery below it
    command = ["kubectl", "--kubeconfig", str(plane.kubeconfig), "apply", "--server-side", "--force-conflicts"]
    subprocess.run([*command, "-k", str(MANIFESTS)], check=True, timeout=60, env=environment)


def change_and_remove_the_tensorboard(cluster: Cluster) -> None:
    def has(image: str | None) -> bool:
        found = cluster.client.list(DEPLOYMENTS, cluster.namespace, decode).items
        images = [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in found]
        return images == ([] if image is None else [image])

    for board, image in (({"image": "boards:2"}, "boards:2"), (None, None)):
        cluster.client.patch(TFJOBS, cluster.namespace, "mnist", {"spec": {"tensorBoard": board}}, decode)
        eventually(lambda image=image: has(image), within=20, what=f"the deployment with image {image}")


def test_the_rights_of_the_manifests_suffice_for_a_jobs_whole_life(
    plane: ControlPlane, cluster: Cluster, rights: None, start_operator: Callable[..., OperatorProcess]
) -> None:
    operator = start_operator(
        "--leader-elect",
        "--leader-elect-namespace=tfoperator-system",
        kubeconfig=plane.kubeconfig_for(OPERATOR_USER),
    )
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 2}
    board = {"tensorBoard": {"logDir": "gs://bucket/logs"}}
    cluster.submit(tfjob("mnist", restart_policy="ExitCode", run_policy=policy, spec=board, PS=1, Worker=1))
    for name in cluster.wait_pods(2):
        cluster.set_phase(name, "Running")
    cluster.wait_condition("mnist", "Running")
    change_and_remove_the_tensorboard(cluster)
    first = cluster.pods()["mnist-worker-0"]["metadata"]["uid"]
    cluster.set_phase("mnist-worker-0", "Failed", exit_code=137)

    def again() -> bool:
        pod = cluster.pods().get("mnist-worker-0")
        return pod is not None and pod["metadata"]["uid"] != first

    eventually(again, within=20, what="the worker is made anew")
    cluster.set_phase("mnist-worker-0", "Running")
    cluster.set_phase("mnist-worker-0", "Succeeded")
    eventually(lambda: not cluster.pods() and not cluster.services(), within=20, what="pods and services are gone")

    def gone() -> bool:
        try:
            cluster.job("mnist")
        except NotFoundError:
            return True
        return False

    eventually(gone, within=20, what="the job is deleted when its time has come")
    assert {"SuccessfulCreatePod", "TFJobSucceeded"} <= {event["reason"] for event in cluster.events()}
    lease = cluster.client.get(LEASES, "tfoperator-system", "tfoperator", decode)
    assert lease["spec"]["holderIdentity"]
    assert operator.stop() == 0
    assert "forbidden" not in operator.tail(1000).lower()
