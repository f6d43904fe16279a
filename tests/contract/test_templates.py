"""Pod templates in TFJobs, and pods: what an API server refuses when they are written, on both servers alike."""

import copy
import json
from typing import Any

import pytest

from tests.contract.support import PODS, TFJOBS, Json, Space, pod
from tests.unit.api.samples import TEMPLATE, tfjob
from tfoperator.kube.protocol.errors import BadRequestError, InvalidError

WORKER = "spec.tfReplicaSpecs.Worker.template"
CONTAINER = f"{WORKER}.spec.containers[0]"


def with_container(**members: Any) -> Json:
    template = copy.deepcopy(TEMPLATE)
    template["spec"]["containers"][0] |= members
    return job(template)


def job(template: Json) -> Json:
    manifest = tfjob({"Worker": {"template": template}})
    del manifest["metadata"]["namespace"]
    return manifest


@pytest.mark.parametrize(
    ("manifest", "unknown"),
    [
        (with_container(resouces={"limits": {"cpu": "1"}}), f"{CONTAINER}.resouces"),
        (with_container(imagePullPolice="Always"), f"{CONTAINER}.imagePullPolice"),
        (with_container(livenessProbe={"exec": {"comand": ["x"]}}), f"{CONTAINER}.livenessProbe.exec.comand"),
        (job({**TEMPLATE, "labels": {"a": "b"}}), f"{WORKER}.labels"),
        (job({"spec": {**TEMPLATE["spec"], "toleration": []}}), f"{WORKER}.spec.toleration"),
        (job({**TEMPLATE, "metadata": {"lables": {"a": "b"}}}), f"{WORKER}.metadata.lables"),
    ],
)
def test_a_misspelt_member_is_refused_as_kubectl_asks_and_else_dropped_with_a_warning(
    space: Space, manifest: Json, unknown: str
) -> None:
    path = space.path(TFJOBS)
    answer = space.http("POST", f"{path}?fieldValidation=Strict", manifest)
    assert answer.code == 400
    assert f'unknown field "{unknown}"' in answer.body["message"]
    answer = space.http("POST", f"{path}?dryRun=All", manifest)
    assert f'unknown field \\"{unknown}\\"' in ", ".join(answer.headers.get_all("Warning"))
    assert answer.code == 201
    assert unknown.rpartition(".")[2] not in json.dumps(answer.body["spec"])


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"args": [1, 2.5, True, "--x=1"]}, f"{CONTAINER}.args[0]"),
        ({"command": "python train.py"}, f"{CONTAINER}.command"),
        ({"env": {"A": "1"}}, f"{CONTAINER}.env"),
        ({"env": [{"name": "A", "value": 1}]}, f"{CONTAINER}.env[0].value"),
        ({"env": [{"value": "1"}]}, f"{CONTAINER}.env[0].name"),
        ({"tty": "yes"}, f"{CONTAINER}.tty"),
        ({"resources": {"limits": {"cpu": "much"}}}, f"{CONTAINER}.resources.limits.cpu"),
        ({"resources": {"limits": {"cpu": {"a": 1}}}}, f"{CONTAINER}.resources.limits.cpu"),
        ({"livenessProbe": {"httpGet": {"port": 0.5}}}, f"{CONTAINER}.livenessProbe.httpGet.port"),
        ({"securityContext": {"runAsUser": "root"}}, f"{CONTAINER}.securityContext.runAsUser"),
        ({"ports": [{"containerPort": 70000}]}, f"{CONTAINER}.ports[0].containerPort"),
    ],
)
def test_a_member_of_a_wrong_type_is_refused_with_its_field(space: Space, members: Json, field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        space.create(TFJOBS, with_container(**members))
    assert field in {cause.field for cause in caught.value.causes}


def test_quantities_may_be_fractions_a_null_is_absent_and_a_template_comes_back_as_it_was_written(space: Space) -> None:
    container = {
        **TEMPLATE["spec"]["containers"][0],
        "resources": {"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}},
        "env": [{"name": "A", "value": ""}],
        "livenessProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 5},
    }
    spec = {"containers": [container], "volumes": [{"name": "a", "emptyDir": {"sizeLimit": 1.5}}]}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec}
    nulls = {"creationTimestamp": None}
    given = {"metadata": {**template["metadata"], **nulls}, "spec": {**spec, "tolerations": None, "affinity": None}}
    made = space.create(TFJOBS, job(given))
    kept = made["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    assert {**kept, "metadata": {k: v for k, v in kept["metadata"].items() if v is not None}} == template


@pytest.mark.parametrize(
    ("members", "fields"),
    [
        (
            {"resources": {"limits": {"nvidia.com/gpu": 0.5}}},
            {"resources.limits[nvidia.com/gpu]", "resources.requests[nvidia.com/gpu]"},
        ),
        ({"resources": {"requests": {"nvidia.com/gpu": 1}}}, {"resources.limits"}),
        (
            {"resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}}},
            {"resources.requests"},
        ),
        ({"resources": {"requests": {"memory": "8Gi"}, "limits": {"memory": "4Gi"}}}, {"resources.requests"}),
        ({"image": "example.com/x:1 "}, {"image"}),
        ({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}, {"volumeMounts[0].name"}),
        ({"ports": [{"name": "a", "containerPort": 1}] * 2}, {"ports[1].name"}),
        ({"readinessProbe": {}}, {"readinessProbe"}),
    ],
)
def test_what_contradicts_itself_in_a_pod_is_refused_with_its_fields(
    space: Space, members: Json, fields: set[str]
) -> None:
    with pytest.raises(InvalidError) as caught:
        space.create(PODS, pod("p", containers=[{"name": "c", "image": "x", **members}]))
    assert {cause.field for cause in caught.value.causes} == {f"spec.containers[0].{field}" for field in fields}


def test_quantities_of_a_pod_that_are_numbers_become_texts(space: Space) -> None:
    resources = {"limits": {"cpu": 0.5, "memory": 1000}, "requests": {"cpu": 0.25}}
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": 1.5}}]
    made = space.create(
        PODS, pod("p", containers=[{"name": "c", "image": "x", "resources": resources}], volumes=volumes)
    )
    stored = made["spec"]["containers"][0]["resources"]
    assert stored == {"limits": {"cpu": "500m", "memory": "1k"}, "requests": {"cpu": "250m", "memory": "1k"}}
    assert made["spec"]["volumes"][0]["emptyDir"] == {"sizeLimit": "1500m"}


def test_a_pod_with_an_image_that_no_kubelet_can_name_is_taken(space: Space) -> None:
    for image in ("gcr.io/${PROJECT_ID}/x", "<project>/x", "Example:1"):
        made = space.create(PODS, pod(f"p{len(image)}", containers=[{"name": "c", "image": image}]))
        assert made["spec"]["containers"][0]["image"] == image


def test_a_pod_loses_members_that_the_server_does_not_know_with_a_warning(space: Space) -> None:
    body = pod("p", containers=[{"name": "c", "image": "x", "resouces": {}}], affinty={})
    answer = space.http("POST", space.path(PODS), body)
    assert answer.code == 201
    assert sorted(answer.headers.get_all("Warning")) == [
        '299 - "unknown field \\"spec.affinty\\""',
        '299 - "unknown field \\"spec.containers[0].resouces\\""',
    ]
    assert "affinty" not in answer.body["spec"]
    with pytest.raises(BadRequestError):
        space.create(PODS, pod("q", containers=[{"name": "c", "image": "x", "args": [1]}]))
