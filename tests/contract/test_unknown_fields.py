"""Fields that Kubernetes does not have, in objects of the built-in kinds: a typo in a manifest."""

from typing import Any

import pytest

from tests.contract.support import Json, Space, pod
from tfoperator.kube.protocol.resources import Resource
from tfoperator.local.apiserver.resource_types import CLAIMS, CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES

SERVICE = {"spec": {"ports": [{"port": 80, "targtPort": 8080}]}}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"request": {"storage": "1Gi"}}}}
TYPOS: list[tuple[Resource, Json, str]] = [
    (CONFIG_MAPS, {"dta": {"a": "b"}}, "dta"),
    (SECRETS, {"stringDatas": {"a": "b"}}, "stringDatas"),
    (SERVICE_ACCOUNTS, {"imagePullSecrets": [{"nam": "a"}]}, "imagePullSecrets[0].nam"),
    (SERVICES, SERVICE, "spec.ports[0].targtPort"),
    (PODS, pod("a", restartPolcy="Never"), "spec.restartPolcy"),
    (PODS, {**pod("a"), "spce": {}}, "spce"),
]


def body_of(resource: Resource, content: Json) -> Json:
    metadata = {"name": "a", **content.get("metadata", {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **content, "metadata": metadata}


def member_of(value: Any, path: str) -> Any:
    for name in path.replace("[", ".").replace("]", "").split("."):
        value = value[int(name)] if name.isdigit() else (value or {}).get(name)
    return value


@pytest.mark.parametrize(("resource", "content", "field"), TYPOS, ids=[field for _, _, field in TYPOS])
def test_a_typo_is_dropped_with_a_warning_or_refused_if_the_client_wants_strictness(
    space: Space, resource: Resource, content: Json, field: str
) -> None:
    body = body_of(resource, content)
    refused = space.http("POST", f"{space.path(resource)}?fieldValidation=Strict", body)
    assert refused.code == 400
    assert f'strict decoding error: unknown field "{field}"' in refused.body["message"]
    silent = space.http("POST", f"{space.path(resource)}?fieldValidation=Ignore&dryRun=All", body)
    assert (silent.code, silent.headers["Warning"]) == (201, None)
    answer = space.http("POST", space.path(resource), body)
    assert answer.code == 201, answer.body
    assert answer.headers["Warning"] == f'299 - "unknown field \\"{field}\\""'
    assert member_of(space.get(resource, "a"), field) is None


def test_a_typo_in_the_metadata_is_found_too(space: Space) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "lables": {"a": "b"}}}
    refused = space.http("POST", f"{space.path(CONFIG_MAPS)}?fieldValidation=Strict", body)
    assert refused.code == 400
    assert 'unknown field "metadata.lables"' in refused.body["message"]


def test_a_claim_with_a_typo_names_the_unknown_field_first(space: Space) -> None:
    refused = space.http("POST", f"{space.path(CLAIMS)}?fieldValidation=Strict", body_of(CLAIMS, CLAIM))
    assert refused.code == 400
    assert 'unknown field "spec.resources.request"' in refused.body["message"]


@pytest.mark.controlplane
def test_kubectl_names_the_typo(space: Space) -> None:
    manifest = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dta": {"a": "b"}}'
    with pytest.raises(AssertionError, match='unknown field "dta"'):
        space.kubectl("apply", "-f", "-", stdin=manifest)
