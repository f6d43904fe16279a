"""The CustomResourceDefinition of TFJob, which clients read to learn which fields a server has."""

import json

import pytest

from tests.contract.support import Json, Space

GROUP = "/apis/apiextensions.k8s.io/v1"
CRDS = f"{GROUP}/customresourcedefinitions"
OURS = f"{CRDS}/tfjobs.kubeflow.org"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SELECTOR = "metadata.name%3Dtfjobs.kubeflow.org"


def test_the_definition_has_what_a_client_looks_for(space: Space) -> None:
    crd: Json = space.http("GET", OURS).body
    assert (crd["kind"], crd["apiVersion"]) == ("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    assert {"uid", "resourceVersion", "creationTimestamp", "generation"} <= set(crd["metadata"])
    spec, status = crd["spec"], crd["status"]
    assert (spec["group"], spec["scope"], spec["names"]["kind"]) == ("kubeflow.org", "Namespaced", "TFJob")
    assert spec["conversion"]["strategy"] == "Webhook"
    versions = {version["name"]: version for version in spec["versions"]}
    assert [name for name, version in versions.items() if version["storage"]] == ["v1"]
    schema = versions["v1"]["schema"]["openAPIV3Schema"]
    assert "tfReplicaSpecs" in schema["properties"]["spec"]["properties"]
    assert versions["v1"]["subresources"]["scale"]["specReplicasPath"] == ".spec.tfReplicaSpecs.Worker.replicas"
    conditions = {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in status["conditions"]
    }
    assert conditions == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert status["acceptedNames"] == spec["names"]
    assert status["storedVersions"] == ["v1"]
    assert space.http("GET", f"{OURS}/status").body == crd


def test_definitions_are_listed_watched_shown_as_a_table_and_discovered(space: Space) -> None:
    listed = space.http("GET", CRDS).body
    assert (listed["kind"], [item["metadata"]["name"] for item in listed["items"]]) == (
        "CustomResourceDefinitionList", ["tfjobs.kubeflow.org"],
    )  # fmt: skip
    table = space.http("GET", CRDS, accept=TABLE).body
    created, names = listed["items"][0]["metadata"]["creationTimestamp"], ("Name", "Scope", "Versions", "Created At")
    more = ("Group", "Kind", "ShortNames", "Established")
    assert [column["name"] for column in table["columnDefinitions"]] == [*names, *more]
    cells = ["tfjobs.kubeflow.org", "Namespaced", "v1(storage),v1alpha2", created, "kubeflow.org", "TFJob", "tfj", True]
    assert table["rows"][0]["cells"] == cells
    watched = space.http("GET", f"{CRDS}?watch=true&timeoutSeconds=1&fieldSelector={SELECTOR}").body
    first: Json = json.loads(watched.splitlines()[0])
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "tfjobs.kubeflow.org")
    resources = {resource["name"]: resource for resource in space.http("GET", GROUP).body["resources"]}
    crds = resources["customresourcedefinitions"]
    assert crds["shortNames"] == ["crd", "crds"]
    assert {"get", "list", "watch"} <= set(crds["verbs"])
    assert "get" in resources["customresourcedefinitions/status"]["verbs"]


def test_a_definition_that_is_not_there_is_a_status(space: Space) -> None:
    answer = space.http("GET", f"{CRDS}/pytorchjobs.kubeflow.org")
    assert (answer.code, answer.body["reason"]) == (404, "NotFound")
    name = {"name": "pytorchjobs.kubeflow.org", "group": "apiextensions.k8s.io", "kind": "customresourcedefinitions"}
    assert answer.body["details"] == name


def test_priority_classes(space: Space) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    classes = {item["metadata"]["name"]: item for item in space.http("GET", path).body["items"]}
    values = {name: classes[name]["value"] for name in ("system-cluster-critical", "system-node-critical")}
    assert values == {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
    name = space.namespace  # the classes of a server are in no namespace
    made = space.http("POST", path, {"metadata": {"name": name}, "value": 7, "description": "mine"})
    assert (made.code, made.body["preemptionPolicy"]) == (201, "PreemptLowerPriority")
    try:
        changed = space.http("PUT", f"{path}/{name}", {**made.body, "value": 8})
        assert (changed.code, changed.body["details"]["causes"][0]["field"]) == (422, "value")
        table = space.http("GET", f"{path}/{name}", accept=TABLE).body
        cells = dict(
            zip(
                (definition["name"] for definition in table["columnDefinitions"]),
                table["rows"][0]["cells"],
                strict=True,
            )
        )
        assert (cells["Name"], cells["Value"], cells["Global-Default"]) == (name, 7, False)
    finally:
        space.http("DELETE", f"{path}/{name}")


@pytest.mark.controlplane
def test_kubectl_gets_definitions_and_priority_classes(space: Space) -> None:
    assert "tfjobs.kubeflow.org" in space.kubectl("get", "crd")
    described = space.kubectl("describe", "crd", "tfjobs.kubeflow.org")
    assert "Established" in described
    space.kubectl("wait", "--for=condition=Established", "crd/tfjobs.kubeflow.org", "--timeout=10s")
    assert "<unset>" not in space.kubectl("get", "priorityclasses", "system-node-critical", "-o", "name")
    assert "storedVersions" in space.kubectl("explain", "crd.status")
    assert "customresourcedefinitions" in space.kubectl("api-resources", "--api-group=apiextensions.k8s.io")
