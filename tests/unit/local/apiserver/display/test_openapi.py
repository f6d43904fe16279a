import json
from typing import Any

import pytest

from tfoperator.local.apiserver.display.openapi import OpenAPI, openapi_v2_protobuf
from tfoperator.local.apiserver.objects.tfjobs import tfjobs
from tfoperator.local.apiserver.resource_types import BUILTIN, NODE_METRICS

CUSTOM = tfjobs()
OPENAPI = OpenAPI([*BUILTIN, NODE_METRICS, *(custom.resource for custom in CUSTOM)], CUSTOM)
GROUPS = (
    "apiextensions.k8s.io/v1", "apps/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1", "coordination.k8s.io/v1",
    "events.k8s.io/v1", "kubeflow.org/v1", "kubeflow.org/v1alpha2", "metrics.k8s.io/v1beta1", "networking.k8s.io/v1",
    "scheduling.k8s.io/v1", "storage.k8s.io/v1",
)  # fmt: skip
PATHS = ["api/v1", *(f"apis/{group}" for group in GROUPS)]


def document(path: str) -> dict[str, Any]:
    content = OPENAPI.document(f"/openapi/v3/{path}")
    assert content is not None
    return content


def of_kind(path: str, kind: str) -> Any:
    schemas = document(path)["components"]["schemas"]
    [matched] = [
        schema
        for schema in schemas.values()
        if any(gvk["kind"] == kind for gvk in schema.get("x-kubernetes-group-version-kind") or ())
    ]
    return matched


@pytest.mark.parametrize("path", PATHS)
def test_every_reference_leads_somewhere_and_patches_are_checked_and_have_nothing_to_merge_by(path: str) -> None:
    content = document(path)
    names = {part.partition('"')[0] for part in json.dumps(content).split('"#/components/schemas/')[1:]}
    assert names
    assert names <= set(content["components"]["schemas"])
    operations = [path_item["patch"] for path_item in content["paths"].values()]
    assert operations
    for operation in operations:
        assert "fieldValidation" in {parameter["name"] for parameter in operation["parameters"]}
        assert "requestBody" not in operation


def test_all_documents_are_listed_and_openapi_2_as_protobuf_is_one_of_no_kind() -> None:
    listed = OPENAPI.document("/openapi/v3")
    assert sorted(listed["paths"]) == PATHS
    assert OPENAPI.document("/openapi/v3/apis/nosuch/v1") is None
    # Field 1 is the version of the format, 2 the information with title and version, 8 the paths.
    title, version = b"Kubernetes (tfoperator, embedded)", b"v1.37.2"
    info = bytes((0x0A, len(title))) + title + bytes((0x12, len(version))) + version
    assert openapi_v2_protobuf() == b"\x0a\x032.0" + bytes((0x12, len(info))) + info + b"\x42\x00"


def test_openapi_2_has_all_kinds_and_every_reference_in_it_leads_to_a_definition() -> None:
    content = OPENAPI.document("/openapi/v2")
    assert content is not None
    definitions = content["definitions"]
    text = json.dumps(definitions)
    names = {part.partition('"')[0] for part in text.split('"#/definitions/')[1:]}
    assert names <= set(definitions)
    assert "#/components" not in text
    kinds = {
        kind["kind"]
        for definition in definitions.values()
        for kind in definition.get("x-kubernetes-group-version-kind") or ()
    }
    assert {resource.kind for resource in (*BUILTIN, NODE_METRICS, CUSTOM[0].resource)} <= kinds


def test_a_document_describes_what_its_own_kinds_need_and_no_more() -> None:
    for resource in BUILTIN:
        path = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
        described = of_kind(path, resource.kind)
        assert described["description"], resource.kind
        assert "metadata" in described["properties"], resource.kind
    assert "io.k8s.api.core.v1.PodSpec" in document("apis/apps/v1")["components"]["schemas"]
    assert "io.k8s.api.core.v1.PodSpec" not in document("apis/coordination.k8s.io/v1")["components"]["schemas"]
    assert "tfReplicaSpecs" in of_kind("apis/kubeflow.org/v1", "TFJob")["properties"]["spec"]["properties"]
    assert of_kind("apis/metrics.k8s.io/v1beta1", "NodeMetrics")["x-kubernetes-preserve-unknown-fields"] is True
