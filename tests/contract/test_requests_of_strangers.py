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


def summary(answer: Answer) -> Any:
    """The kind of an answer, the columns of a table, or the members of a document that has no kind, by their types."""
    body: Json = answer.body if isinstance(answer.body, dict) else json.loads(answer.body.splitlines()[0])
    if body.get("kind") == "Table":
        return [column["name"] for column in body["columnDefinitions"]]
    if {"type", "object"} <= set(body):
        assert body["type"] in ("ADDED", "BOOKMARK")
        return "watch"
    return body.get("kind", body)


def different(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return not all(isinstance(found.get(name), KINDS[kind]) for name, kind in wanted.items())
    return bool(found != wanted)


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
    for path, accepted, wanted in CLIENTS[client]:
        answer = space.http("GET", path.replace("{ns}", space.namespace), accept=ACCEPTED[accepted])
        assert answer.code == (404 if wanted == "Status" else 200), path
        if different(found := summary(answer), wanted):
            wrong[path] = (found, wanted)

    assert not wrong
