"""The requests of clients that we did not write, replayed: each server answers them in the same way."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.support import CONFIG_MAPS, PODS, TFJOBS, Answer, Json, Space, config_map, pod, tfjob

CLIENTS: dict[str, list[Any]] = yaml.safe_load(Path(__file__).with_name("requests_of_strangers.yaml").read_text())
ACCEPTED = {
    "json": "application/json",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,"
    "application/json",
    "discovery": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
}
KINDS = {"text": str, "members": dict}


ABSENT = ("Status", "page")
"""The answers to requests for objects and for API groups that do not exist."""


def summary(answer: Answer) -> Any:
    """The kind of an answer, the columns of a table, or the members of a document that has no kind, by their types."""
    if answer.body == b"404 page not found\n":
        return "page"
    body: Json = answer.body if isinstance(answer.body, dict) else json.loads(answer.body.splitlines()[0])
    if body.get("kind") == "Table":
        return [column["name"] for column in body["columnDefinitions"]]
    if {"type", "object"} <= set(body):
        assert body["type"] in ("ADDED", "BOOKMARK")
        return "watch"
    return body.get("kind", body)


def merged(current: Any, changes: Any) -> Any:
    """An object that a client has read and changed; None is a field that it has removed."""
    if not isinstance(current, dict) or not isinstance(changes, dict):
        return changes
    all_names = {**current, **changes}
    values = {
        name: merged(current.get(name), changes[name]) if name in changes else current[name] for name in all_names
    }
    return {name: value for name, value in values.items() if value is not None}


def different(actual: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return not all(isinstance(actual.get(name), KINDS[kind]) for name, kind in wanted.items())
    return bool(actual != wanted)


@pytest.mark.parametrize("check", ["healthz", "livez", "readyz"])
def test_health_is_a_word_or_a_list_of_checks(space: Space, check: str) -> None:
    for path in (f"/{check}", f"/{check}/ping"):
        answer = space.http("GET", path)
        assert (answer.code, answer.body) == (200, b"ok")
    answer = space.http("GET", f"/{check}?verbose")
    assert answer.code == 200
    lines = answer.body.decode().splitlines()
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == f"{check} check passed"
    assert space.http("GET", f"/{check}/absent").code == 404


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_asks_is_answered(space: Space, client: str) -> None:
    space.create(CONFIG_MAPS, config_map("c"))
    space.create(PODS, pod("p"))
    space.create(TFJOBS, tfjob("j", Worker=1))

    wrong = {}
    for row, accepted, wanted, *body in CLIENTS[client]:
        method, path = (row if " " in row else f"GET {row}").replace("{ns}", space.namespace).split(" ")
        if method == "PUT":
            body = [merged(space.http("GET", path).body, *body)]
        answer = space.http(method, path, *body, accept=ACCEPTED[accepted])
        code = 201 if method == "POST" else 404 if method == "GET" and wanted in ABSENT else 200
        assert answer.code == code, (row, answer.body)
        if different(actual := summary(answer), wanted):
            wrong[row] = (actual, wanted)

    assert not wrong


def test_the_kinds_are_documented_in_openapi_2(space: Space) -> None:
    """The documentation in Headlamp's editor is from this document."""
    definitions = space.http("GET", "/openapi/v2").body["definitions"]
    by_kind = {
        (gvk["group"], gvk["version"], gvk["kind"]): schema
        for schema in definitions.values()
        for gvk in schema.get("x-kubernetes-group-version-kind") or ()
    }
    assert "tfReplicaSpecs" in by_kind["kubeflow.org", "v1", "TFJob"]["properties"]["spec"]["properties"]
    pod = by_kind["", "v1", "Pod"]["properties"]["spec"]
    name = pod["$ref"].removeprefix("#/definitions/")
    assert (
        definitions[name]["properties"]["containers"]["items"]["$ref"] == "#/definitions/io.k8s.api.core.v1.Container"
    )
