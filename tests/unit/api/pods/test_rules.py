"""The rules that users meet most; `tests/contract/test_pod_rules.py` compares all of them with kube-apiserver."""

from typing import Any

import pytest

from tests.support.random_templates import templates, valid_template
from tfoperator.api.pods.rules import Kind, pod_faults, template_faults
from tfoperator.api.pods.types import TEMPLATE, wrong_types

GPU = "nvidia.com/gpu"


def faults(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Kind]:
    """The faults of a pod with this container, by field, below the container's or the spec's path."""
    main = {"name": "tensorflow", "image": "x", **(container or {})}
    problems = pod_faults({"spec": {"containers": [main], **spec}})
    return {problem.field.removeprefix("spec.").removeprefix("containers[0]."): problem.kind for problem in problems}


@pytest.mark.parametrize(
    ("resources", "kinds"),
    [
        ({"limits": {GPU: 0.5}}, {f"resources.limits[{GPU}]": Kind.INVALID}),
        ({"limits": {GPU: 1}}, {}),
        ({"limits": {GPU: 1}, "requests": {GPU: "1000m"}}, {}),
        ({"requests": {GPU: 1}}, {"resources.limits": Kind.REQUIRED}),
        ({"limits": {GPU: 2}, "requests": {GPU: 1}}, {"resources.requests": Kind.INVALID}),
        ({"limits": {"memory": "4Gi"}, "requests": {"memory": "8Gi"}}, {"resources.requests": Kind.INVALID}),
        ({"limits": {"cpu": 0.5}, "requests": {"cpu": "500m"}}, {}),
        ({"limits": {"gpu": 1}}, {"resources.limits[gpu]": Kind.INVALID}),
        ({"requests": {"cpu": "-1"}}, {"resources.requests[cpu]": Kind.INVALID}),
        ({"claims": [{"name": "a"}]}, {"resources.claims[0]": Kind.NOT_FOUND}),
    ],
)
def test_resources(resources: dict[str, Any], kinds: dict[str, Kind]) -> None:
    assert faults({"resources": resources}) == kinds


@pytest.mark.parametrize(
    ("container", "spec", "kinds"),
    [
        ({"image": "x "}, {}, {"image": Kind.INVALID}),
        ({"name": "A"}, {}, {"name": Kind.INVALID}),
        ({}, {"initContainers": [{"name": "tensorflow", "image": "x"}]}, {"initContainers[0].name": Kind.DUPLICATE}),
        ({"env": [{"name": "A=B"}]}, {}, {"env[0].name": Kind.INVALID}),
        ({"env": [{"name": "A", "valueFrom": {}}]}, {}, {"env[0].valueFrom": Kind.INVALID}),
        ({"ports": [{"containerPort": 0}]}, {}, {"ports[0].containerPort": Kind.REQUIRED}),
        ({"imagePullPolicy": "always"}, {}, {"imagePullPolicy": Kind.NOT_SUPPORTED}),
        ({"livenessProbe": {"periodSeconds": 1}}, {}, {"livenessProbe": Kind.REQUIRED}),
        ({"securityContext": {"runAsUser": -1}}, {}, {"securityContext.runAsUser": Kind.INVALID}),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]},
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumeMounts[1].mountPath": Kind.INVALID},
        ),
        ({}, {"volumes": [{"name": "v", "emptyDir": {}, "nfs": {}}]}, {"volumes[0].nfs": Kind.FORBIDDEN}),
        ({}, {"volumes": [{"name": "v"}]}, {}),
        ({}, {"restartPolicy": "Sometimes"}, {"restartPolicy": Kind.NOT_SUPPORTED}),
        ({}, {"tolerations": [{"operator": "Equal"}]}, {"tolerations[0].operator": Kind.INVALID}),
        ({}, {"nodeSelector": {"a b": "c"}}, {"nodeSelector": Kind.INVALID}),
        ({}, {"hostname": "a.b"}, {"hostname": Kind.INVALID}),
        ({}, {"ephemeralContainers": [{}]}, {"ephemeralContainers": Kind.FORBIDDEN}),
    ],
)
def test_other_parts(container: dict[str, Any], spec: dict[str, Any], kinds: dict[str, Kind]) -> None:
    assert faults(container, **spec) == kinds


def test_random_templates_that_are_valid_have_no_fault_and_spoilt_ones_never_end_in_an_exception() -> None:
    import random

    for number in range(200):
        assert list(pod_faults(valid_template(random.Random(number)))) == []
    spoilt = 0
    for template in templates(1, 300):
        if not list(wrong_types(template, TEMPLATE, "")):
            spoilt += bool(list(pod_faults(template)) and list(template_faults(template, "spec.template")))
    assert spoilt > 60
