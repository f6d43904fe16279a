"""Which fields of this release an API server with another CRD would remove."""

from typing import Any

import msgspec
import pytest

from tfoperator.api.schema.crd import openapi_schema
from tfoperator.api.schema.served import (
    FieldTree,
    missing_fields,
    needed_fields,
    pruned_fields,
    served_fields,
    value_of_fields,
)

NEEDED = needed_fields()
REPLICA = "spec.tfReplicaSpecs.*"


def document(schema: dict[str, Any], kind: str = "TFJob", version: str = "v1") -> bytes:
    """An OpenAPI document as API servers make it: with a list of the kind, and other kinds."""
    gvk = {"group": "kubeflow.org", "version": version, "kind": kind}
    schemas = {
        "org.kubeflow.v1.TFJobList": {"x-kubernetes-group-version-kind": [{**gvk, "kind": "TFJobList"}]},
        "org.kubeflow.v1.TFJob": {**schema, "x-kubernetes-group-version-kind": [gvk]},
        "io.k8s.apimachinery.pkg.apis.meta.v1.Status": {"type": "object"},
    }
    return msgspec.json.encode({"openapi": "3.0.0", "components": {"schemas": schemas}})


def without(*path: str) -> FieldTree:
    """The fields that an API server serves with a CRD of this release that lacks a single field."""
    schema = openapi_schema()
    place = schema
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return served_fields(document(schema))


def test_a_crd_of_this_release_lacks_nothing() -> None:
    assert missing_fields(NEEDED, served_fields(document(openapi_schema()))) == ()


def test_open_pod_templates_lack_nothing() -> None:
    assert missing_fields(NEEDED, served_fields(document(openapi_schema(open_templates=True)))) == ()


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        (("properties", "spec", "properties", "network"), "spec.network"),
        (("properties", "status", "properties", "restarts"), "status.restarts"),
        (("properties", "status"), "status"),
        (("properties", "status", "properties", "operatorConditions", "items", "properties", "reason"),
         "status.operatorConditions[].reason"),
        (("properties", "spec", "properties", "tfReplicaSpecs", "additionalProperties", "properties", "restartPolicy"),
         f"{REPLICA}.restartPolicy"),
    ],
)  # fmt: skip
def test_what_an_older_crd_lacks_is_named(path: tuple[str, ...], missing: str) -> None:
    assert missing_fields(NEEDED, without(*path)) == (missing,)


def test_a_field_that_became_open_is_missing_where_it_is_closed() -> None:
    needed = FieldTree(properties={"spec": FieldTree(is_open=True)})
    closed = FieldTree(properties={"spec": FieldTree()})
    assert missing_fields(needed, closed) == ("spec",)
    assert missing_fields(closed, needed) == ()


@pytest.mark.parametrize("data", [document({}, kind="PyTorchJob"), document({}, version="v1alpha2"), b"{}"])
def test_a_document_without_tfjobs_is_no_answer(data: bytes) -> None:
    with pytest.raises(ValueError, match="has no schema for TFJob"):
        served_fields(data)


def test_a_job_loses_only_the_fields_that_this_release_has() -> None:
    served = without("properties", "spec", "properties", "network")
    spec = {"network": "PerJob", "misspelt": 1, "tfReplicaSpecs": {"Worker": {"replicas": 1}}}
    assert list(pruned_fields({"spec": spec}, NEEDED, served)) == ["spec.network"]
    assert list(pruned_fields({"spec": spec}, NEEDED, NEEDED)) == []


def test_a_job_loses_fields_in_lists_and_maps() -> None:
    containers = (
        "properties", "spec", "properties", "tfReplicaSpecs", "additionalProperties", "properties", "template",
        "properties", "spec", "properties", "containers", "items", "properties",
    )  # fmt: skip
    served = without(*containers, "lifecycle")
    template = {"spec": {"containers": [{"name": "tensorflow", "lifecycle": {"preStop": {}}}]}}
    spec = {"tfReplicaSpecs": {"Worker": {"template": template}}}
    lost = ["spec.tfReplicaSpecs.Worker.template.spec.containers[].lifecycle"]
    assert list(pruned_fields({"spec": spec}, NEEDED, served)) == lost


def test_managed_fields_name_the_fields_that_were_written() -> None:
    fields = {
        "f:spec": {
            ".": {},
            "f:network": {},
            "f:containers": {'k:{"name":"tensorflow"}': {".": {}, "f:lifecycle": {}}, 'k:{"name":"b"}': {}},
        }
    }
    written = {"spec": {"network": {}, "containers": [{"lifecycle": {}}, {}]}}
    assert value_of_fields(fields) == written
    assert value_of_fields(None) is None
