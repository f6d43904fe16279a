"""The operator as a process on a real kube-apiserver: what it survives, what it reads again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess
from tfoperator.api.v1.types import TFJOBS

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]


def test_an_object_nested_deeply_keeps_nobody_from_working(cluster: Cluster, start_operator: Start) -> None:
    # API servers take 10,000 levels; a decoder in Python stops before, and its limit can't always be raised.
    levels = "[" * 9990 + "]" * 9990
    deep = json.dumps(tfjob("deep", Worker=1)).replace('"containers"', f'"deep": {levels}, "containers"')
    cluster.client.create(TFJOBS, cluster.namespace, deep.encode(), lambda _: None)
    start_operator()
    cluster.submit(tfjob("flat", Worker=1))
    eventually(lambda: "flat-worker-0" in cluster.pods(), what="the other job's pod")


CONFIG = "accelerators: {example.com/gpu: {env: [{name: DRIVER, value: '%s'}]}}\n"


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["spec"]["containers"]
    return dict(only)


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
    eventually(lambda: "new pods get these accelerators: example.com/gpu" in operator.tail(), what="a reload")
    assert driver_of("after") == "22"
