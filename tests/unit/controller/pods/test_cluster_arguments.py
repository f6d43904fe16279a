from __future__ import annotations

from typing import Any

import pytest

from tests.unit.controller.builders import TEMPLATE, ReadablePlan, label, make_job, planned
from tfoperator.controller.plan.observed import PlanOptions


def plan_new(replicas: dict[str, Any], options: PlanOptions | None = None, **spec: Any) -> ReadablePlan:
    job = make_job(replicas, **({"clusterArguments": True} | spec))
    return planned(job, services=(), options=options or PlanOptions())


def arguments(result: ReadablePlan) -> dict[str, list[str] | None]:
    """The arguments of each replica's first container."""
    return {label(c.replica): c.body["spec"]["containers"][0].get("args") for c in result.creations("pods")}


def with_container(**members: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [TEMPLATE["spec"]["containers"][0] | members]}}}


def test_each_replica_is_told_of_all_and_which_it_is() -> None:
    hosts = [
        "--ps_hosts=mnist-ps-0.ns.svc:2222",
        "--worker_hosts=mnist-worker-0.ns.svc:2222,mnist-worker-1.ns.svc:2222",
    ]
    assert arguments(plan_new({"PS": 1, "Worker": 2})) == {
        "PS-0": [*hosts, "--job_name=ps", "--task_index=0"],
        "Worker-0": [*hosts, "--job_name=worker", "--task_index=0"],
        "Worker-1": [*hosts, "--job_name=worker", "--task_index=1"],
    }
    # So is a single replica, since its program parses the same, and nobody where the job does not ask for it.
    alone = ["--worker_hosts=mnist-worker-0.ns.svc:2222", "--job_name=worker", "--task_index=0"]
    assert arguments(plan_new({"Worker": 1})) == {"Worker-0": alone}
    assert arguments(plan_new({"PS": 1, "Worker": 1}, clusterArguments=False)) == {"PS-0": None, "Worker-0": None}


@pytest.mark.parametrize(
    ("in_cluster", "types"), [(True, ["chief", "evaluator", "worker"]), (False, ["chief", "worker"])]
)
def test_chief_and_evaluator_have_hosts_as_in_tf_config(in_cluster: bool, types: list[str]) -> None:
    options = PlanOptions(evaluator_in_cluster=in_cluster, cluster_domain="cluster.local")
    found = arguments(plan_new({"Chief": 1, "Worker": 1, "Evaluator": 1}, options))
    expected = [f"--{one}_hosts=mnist-{one}-0.ns.svc.cluster.local:2222" for one in types]
    assert found["Evaluator-0"] == [*expected, "--job_name=evaluator", "--task_index=0"]


def test_they_follow_the_arguments_of_the_container_that_trains() -> None:
    containers = [
        {"name": "sidecar", "image": "s", "args": ["--quiet"]},
        {"name": "tensorflow", "image": "i", "args": ["--steps=3", "--job_name=mine"]},
    ]
    result = plan_new({"Worker": {"template": {"spec": {"containers": containers}}}})
    sidecar, trainer = result.creations("pods")[0].body["spec"]["containers"]
    assert sidecar["args"] == ["--quiet"]
    assert trainer["args"][:2] == ["--steps=3", "--job_name=mine"]
    assert trainer["args"][-2:] == ["--job_name=worker", "--task_index=0"]
