from __future__ import annotations

import json
from typing import Any

import pytest

from hack.pod_environment import variables
from tests.unit.controller.builders import ReadablePlan, label, make_job, planned
from tfoperator.controller.plan.observed import PlanOptions


def tf_configs(replicas: dict[str, Any], options: PlanOptions | None = None, **spec: Any) -> dict[str, str | None]:
    result = planned(make_job(replicas, **spec), services=(), options=options or PlanOptions())
    found = {}
    for create in result.creations("pods"):
        env = create.body["spec"]["containers"][0].get("env", [])
        values = [e["value"] for e in env if e["name"] == "TF_CONFIG"]
        assert len(values) <= 1
        found[label(create.replica)] = values[0] if values else None
    return found


@pytest.mark.parametrize(
    ("replicas", "domain", "expected"),
    [
        ({"Worker": 1}, "", None),
        ({"Worker": 1}, "tf.training.com", None),
        (
            {"Worker": 1, "PS": 1},
            "tf.training.org",
            '{"cluster":{"ps":["mnist-ps-0.ns.svc.tf.training.org:2222"],'
            '"worker":["mnist-worker-0.ns.svc.tf.training.org:2222"]},'
            '"task":{"type":"worker","index":0},"environment":"cloud"}',
        ),
        (
            {"Worker": 1, "PS": 1, "Evaluator": 1},
            "",
            '{"cluster":{"evaluator":["mnist-evaluator-0.ns.svc:2222"],"ps":["mnist-ps-0.ns.svc:2222"],'
            '"worker":["mnist-worker-0.ns.svc:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}',
        ),
    ],
)
def test_it_reads_like_the_go_operators(replicas: dict[str, Any], domain: str, expected: str | None) -> None:
    assert tf_configs(replicas, PlanOptions(cluster_domain=domain))["Worker-0"] == expected


@pytest.mark.parametrize("operators", [True, False])
@pytest.mark.parametrize("jobs", [True, False])
def test_a_job_says_for_itself_whether_its_evaluators_are_in_the_cluster(jobs: bool, operators: bool) -> None:
    options = PlanOptions(evaluator_in_cluster=operators)
    found = tf_configs({"Chief": 1, "Evaluator": 1}, options, evaluatorInCluster=jobs)
    for text in found.values():
        assert ("evaluator" in json.loads(text or "")["cluster"]) is jobs


def test_dynamic_workers_know_themselves_the_servers_and_the_chief() -> None:
    found = tf_configs({"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}, enableDynamicWorker=True)
    configs = {name: json.loads(text or "") for name, text in found.items()}
    servers = ["mnist-ps-0.ns.svc:2222", "mnist-ps-1.ns.svc:2222"]
    chief = ["mnist-chief-0.ns.svc:2222"]
    assert configs["Worker-1"] == {
        "cluster": {"worker": {"1": "mnist-worker-1.ns.svc:2222"}, "ps": servers, "chief": chief},
        "task": {"type": "worker", "index": 1},
    }
    assert configs["Chief-0"]["cluster"] == {"worker": {}, "ps": servers, "chief": chief}
    assert configs["PS-1"]["cluster"] == {"worker": {}, "ps": servers[1:]}
    assert configs["Evaluator-0"]["cluster"] == {"worker": {}, "ps": [], "chief": chief}


LONG = "a-name-as-long-as-teams-give-them-who-say-all-in-it"


@pytest.mark.parametrize(
    "replicas",
    [{"Worker": 2}, {"Worker": 170}, {"PS": 3, "Worker": 171}, {"PS": 172, "Worker": 173, "Evaluator": 1}],
    ids=str,
)
@pytest.mark.parametrize("name", ["m", "mnist", LONG])
@pytest.mark.parametrize("network", ["PerReplica", "PerJob"])
def test_programs_read_the_cluster_however_a_pod_says_it(replicas: dict[str, int], name: str, network: str) -> None:
    within = f".{name}.ns.svc:2222" if network == "PerJob" else ".ns.svc:2222"
    hosts = {
        kind.lower(): [f"{name}-{kind.lower()}-{index}{within}" for index in range(count)]
        for kind, count in sorted(replicas.items())
    }
    for create in planned(make_job(replicas, name=name, network=network), services=()).creations("pods"):
        (container,) = create.body["spec"]["containers"]
        assert ('"_"' in json.dumps(container["env"])) == (network == "PerJob" and replicas["Worker"] > 2)
        kind, index = create.replica
        expected = {"cluster": hosts, "task": {"type": kind.lower(), "index": index}, "environment": "cloud"}
        assert json.loads(variables(container)["TF_CONFIG"]) == expected


# As arguments.


def plan_new(replicas: dict[str, Any], options: PlanOptions | None = None, **spec: Any) -> ReadablePlan:
    job = make_job(replicas, **({"clusterArguments": True} | spec))
    return planned(job, services=(), options=options or PlanOptions())


def arguments(result: ReadablePlan) -> dict[str, list[str] | None]:
    """The arguments of each replica's first container."""
    return {label(c.replica): c.body["spec"]["containers"][0].get("args") for c in result.creations("pods")}


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
