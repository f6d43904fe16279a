"""The variables of Keras 3 and JAX in the pods of a job."""

from typing import Any

import pytest

from hack.pod_environment import variables
from tests.unit.controller.builders import label, make_job, planned
from tfoperator.api.replicas.process_variables import PROCESS_VARIABLES


def of_pods(replicas: dict[str, Any], **spec: Any) -> dict[str, dict[str, str]]:
    """The variables of Keras and JAX that each replica's container has."""
    by_replica = {}
    for create in planned(make_job(replicas, **spec), services=()).creations("pods"):
        env = variables(create.body["spec"]["containers"][0])
        by_replica[label(create.replica)] = {name: value for name, value in env.items() if name in PROCESS_VARIABLES}
    return by_replica


def test_the_chief_is_process_0_workers_follow_and_an_evaluator_is_none() -> None:
    by_replica = of_pods({"Worker": 2, "Evaluator": 1, "Chief": 1})
    hosts = [f"mnist-{name}.ns.svc:2222" for name in ("chief-0", "worker-0", "worker-1")]
    assert by_replica["Worker-1"] == {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(hosts),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "3",
        "KERAS_DISTRIBUTION_PROCESS_ID": "2",
        "JAX_COORDINATOR_ADDRESS": hosts[0],
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "2",
        "COORDINATOR_ADDRESS": "mnist-chief-0.ns.svc",
        "COORDINATOR_PORT": "2222",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "2",
    }
    assert [by_replica[name]["PROCESS_ID"] for name in ("Chief-0", "Worker-0")] == ["0", "1"]
    assert by_replica["Evaluator-0"] == {}


@pytest.mark.parametrize(
    ("replicas", "spec"),
    [
        ({"Worker": 1}, {}),
        ({"Worker": 1, "Evaluator": 1}, {}),
        ({"Chief": 1, "Worker": 2, "PS": 1}, {}),
        ({"Worker": 2}, {"enableDynamicWorker": True}),
    ],
    ids=["one process", "one process with an evaluator", "parameter servers", "dynamic workers"],
)
def test_a_job_of_another_shape_has_none_of_them(replicas: dict[str, Any], spec: dict[str, Any]) -> None:
    assert set().union(*of_pods(replicas, **spec).values()) == set()


def test_a_job_with_parameter_servers_that_have_no_replicas_has_them() -> None:
    assert of_pods({"Worker": 2, "PS": 0})["Worker-0"]["NUM_PROCESSES"] == "2"


def test_a_variable_that_the_user_sets_wins_and_stands_once() -> None:
    env = [{"name": "NUM_PROCESSES", "value": "8"}, {"name": "JAX_COORDINATOR_ADDRESS", "valueFrom": {}}]
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "env": env}]}}
    job = make_job({"Worker": {"replicas": 2, "template": template}})
    for create in planned(job, services=()).creations("pods"):
        made = create.body["spec"]["containers"][0]["env"]
        assert made[:2] == env
        assert sorted(PROCESS_VARIABLES) == sorted(
            variable["name"] for variable in made if variable["name"] != "TF_CONFIG"
        )


@pytest.mark.parametrize("network", ["PerReplica", "PerJob"])
def test_a_long_list_of_addresses_is_the_coordinators_alone(network: str) -> None:
    by_replica = of_pods({"Worker": 300}, network=network)
    for index in (0, 299):
        addresses = by_replica[f"Worker-{index}"]["KERAS_DISTRIBUTION_JOB_ADDRESSES"]
        assert addresses == by_replica["Worker-0"]["JAX_COORDINATOR_ADDRESS"]
    assert by_replica["Worker-299"]["KERAS_DISTRIBUTION_NUM_PROCESSES"] == "300"
