import json
from typing import Any

import msgspec
import pytest

from tfoperator.controller.pods.resources import pod_requests
from tfoperator.controller.pods.template import PodTemplateError, Template


def requests(*containers: dict[str, Any], **spec: Any) -> dict[str, str]:
    whole = {
        "containers": [{"name": "tensorflow", "image": "x", "resources": container} for container in containers],
        **spec,
    }
    raw = msgspec.Raw(json.dumps({"spec": whole}).encode())
    return pod_requests(Template("spec.tfReplicaSpecs[Worker].template", raw)).quantities()


def init(resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "init", "image": "x", "resources": resources, **more}


def cpu(amount: str) -> dict[str, Any]:
    return {"requests": {"cpu": amount}}


BOTH = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "9"}}
LIMITED = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "4"}}
SIDECAR = init(cpu("1"), restartPolicy="Always")


@pytest.mark.parametrize(
    ("containers", "spec", "asked"),
    [
        ([BOTH, {"requests": {"cpu": "500m", "memory": "512Mi"}}], {}, {"cpu": "2", "memory": "1536Mi"}),
        # A limit counts where nothing is requested.
        ([LIMITED], {}, {"cpu": "1", "nvidia.com/gpu": "4"}),
        # The largest init container counts if it is larger than all containers.
        ([cpu("1"), cpu("1")], {"initContainers": [init(cpu("3")), init(cpu("2"))]}, {"cpu": "3"}),
        ([cpu("2"), cpu("2")], {"initContainers": [init(cpu("3"))]}, {"cpu": "4"}),
        # An init container that keeps running counts with the containers after it.
        ([cpu("2")], {"initContainers": [SIDECAR]}, {"cpu": "3"}),
        ([cpu("2")], {"initContainers": [SIDECAR, init(cpu("3"))]}, {"cpu": "4"}),
        ([cpu("2")], {"initContainers": [init(cpu("3")), SIDECAR]}, {"cpu": "3"}),
        # The requests of a pod as a whole overrule its containers.
        ([cpu("2")], {"resources": {"requests": {"cpu": "5", "example.com/x": "1"}}}, {"cpu": "5"}),
        ([cpu("2")], {"resources": {"limits": {"cpu": "5", "memory": "1Gi"}}}, {"cpu": "2", "memory": "1Gi"}),
        ([cpu("2")], {"overhead": {"cpu": "250m"}}, {"cpu": "2250m"}),
        ([{}, cpu("0")], {}, {}),
    ],
)
def test_what_a_pod_asks_for(containers: list[Any], spec: dict[str, Any], asked: dict[str, str]) -> None:
    assert requests(*containers, **spec) == asked


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
