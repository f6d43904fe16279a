from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tfoperator.api.v1.types import ReplicaSpec, ReplicaType
from tfoperator.controller.pods.resources import pod_requests
from tfoperator.controller.pods.template import PodTemplateError, Template


def requests(*containers: dict[str, Any], **spec: Any) -> dict[str, str]:
    whole = {"containers": [{"name": "tensorflow", "image": "x", "resources": one} for one in containers], **spec}
    raw = msgspec.Raw(json.dumps({"spec": whole}).encode())
    return pod_requests(Template(ReplicaType.WORKER, ReplicaSpec(template=raw))).quantities()


def init(resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "init", "image": "x", "resources": resources, **more}


def cpu(amount: str) -> dict[str, Any]:
    return {"requests": {"cpu": amount}}


def test_containers_add_up() -> None:
    one = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "9"}}
    assert requests(one, {"requests": {"cpu": "500m", "memory": "512Mi"}}) == {"cpu": "2", "memory": "1536Mi"}


def test_a_limit_counts_where_nothing_is_requested() -> None:
    one = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "4"}}
    assert requests(one) == {"cpu": "1", "nvidia.com/gpu": "4"}


def test_the_largest_init_container_counts_if_it_is_larger_than_all_containers() -> None:
    assert requests(cpu("1"), cpu("1"), initContainers=[init(cpu("3")), init(cpu("2"))]) == {"cpu": "3"}
    assert requests(cpu("2"), cpu("2"), initContainers=[init(cpu("3"))]) == {"cpu": "4"}


def test_an_init_container_that_keeps_running_counts_with_what_comes_after_it() -> None:
    sidecar = init(cpu("1"), restartPolicy="Always")
    assert requests(cpu("2"), initContainers=[sidecar]) == {"cpu": "3"}
    assert requests(cpu("2"), initContainers=[sidecar, init(cpu("3"))]) == {"cpu": "4"}
    assert requests(cpu("2"), initContainers=[init(cpu("3")), sidecar]) == {"cpu": "3"}


def test_what_a_pod_asks_for_as_a_whole_overrules_its_containers() -> None:
    assert requests(cpu("2"), resources={"requests": {"cpu": "5", "example.com/x": "1"}}) == {"cpu": "5"}
    assert requests(cpu("2"), resources={"limits": {"cpu": "5", "memory": "1Gi"}}) == {"cpu": "2", "memory": "1Gi"}


def test_overhead_is_added() -> None:
    assert requests(cpu("2"), overhead={"cpu": "250m"}) == {"cpu": "2250m"}


def test_what_is_asked_for_none_of_is_left_out() -> None:
    assert requests({}, cpu("0")) == {}


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"requests": {"cpu": "much"}}, "containers[0].resources.requests[cpu]: must be a quantity"),
        ({"limits": {"cpu": -1}}, "containers[0].resources.limits[cpu]: must be 0 or more"),
        ({"requests": []}, "containers[0].resources.requests: must be an object"),
        ("all", "containers[0].resources: must be an object"),
    ],
)
def test_what_cannot_be_read_is_named(resources: Any, words: str) -> None:
    with pytest.raises(PodTemplateError) as caught:
        requests(resources)
    assert f"spec.tfReplicaSpecs[Worker].template.spec.{words}" in str(caught.value)
