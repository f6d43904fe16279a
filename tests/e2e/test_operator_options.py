"""What an administrator can choose about the pods that are made, on a real kube-apiserver."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]

CONFIG = "accelerators: {example.com/gpu: {env: [{name: DRIVER, value: '%s'}]}}\n"


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["spec"]["containers"]
    return dict(only)


def test_unique_names_stay_a_jobs_own_when_the_option_is_gone(cluster: Cluster, start_operator: Start) -> None:
    operator = start_operator("--unique-names")
    cluster.submit(tfjob("mnist", restart_policy="OnFailure", PS=1, Worker=1))
    pods = cluster.wait_pods(2)
    piece = cluster.job("mnist")["metadata"]["uid"][:8]
    names = {f"mnist-ps-0-{piece}", f"mnist-worker-0-{piece}"}
    assert set(pods) == names == set(cluster.services())
    variables = {variable["name"]: variable["value"] for variable in container(pods[f"mnist-ps-0-{piece}"])["env"]}
    assert json.loads(variables["TF_CONFIG"])["cluster"]["worker"] == [
        f"mnist-worker-0-{piece}.{cluster.namespace}.svc:2222"
    ]
    for name in pods:
        cluster.set_phase(name, "Running")
    cluster.wait_condition("mnist", "Running")
    assert operator.stop() == 0

    start_operator()
    lost = f"mnist-worker-0-{piece}"
    cluster.set_phase(lost, "Failed", exit_code=137)

    def replaced() -> bool:
        pod = cluster.pods().get(lost)
        return pod is not None and pod["metadata"]["uid"] != pods[lost]["metadata"]["uid"]

    eventually(replaced, what="worker 0 is made again")
    assert set(cluster.pods()) == names == set(cluster.services())


def test_accelerators_equip_pods_and_a_changed_file_those_that_come_later(
    cluster: Cluster, start_operator: Start, tmp_path: Path
) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text(CONFIG % "1")
    operator = start_operator(f"--config={config}")

    def driver_of(name: str) -> str:
        job = tfjob(name, Worker=1)
        template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
        template["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": 1}}
        cluster.submit(job)
        pod = eventually(lambda: cluster.pods().get(f"{name}-worker-0"), what="a pod")
        assert pod is not None
        return str(container(pod)["env"][0]["value"])

    assert driver_of("before") == "1"
    config.write_text(CONFIG % "22")
    eventually(
        lambda: "new pods are made with the accelerators: example.com/gpu" in operator.tail(),
        what="a reload",
    )
    assert driver_of("after") == "22"


def test_what_runs_when_its_job_has_ended_may_be_left_alone_by_default(cluster: Cluster, start_operator: Start) -> None:
    operator = start_operator("--default-clean-pod-policy=None")
    cluster.submit(tfjob("left", PS=1, Worker=2))
    cluster.run_pods(3)
    cluster.wait_condition("left", "Running")
    cluster.set_phase("left-worker-1", "Failed", exit_code=1)
    cluster.wait_condition("left", "Failed")
    cluster.submit(tfjob("later", Worker=1))
    cluster.wait_pods(4)
    assert not [pod for pod in cluster.pods().values() if "activeDeadlineSeconds" in pod["spec"]]
    assert operator.stop() == 0

    start_operator()
    eventually(
        lambda: sum("activeDeadlineSeconds" in pod["spec"] for pod in cluster.pods().values()) == 2,
        what="without the option, the others are stopped",
    )
