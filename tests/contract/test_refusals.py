"""The refusals of a server, as a whole: clients decide by code, reason and details."""

from pathlib import Path
from typing import Any

import yaml

from tests.contract.support import CONFIG_MAPS, PODS, TFJOBS, Answer, Json, Space, config_map, pod, tfjob

CASES: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text())
CORE = "/api/v1/namespaces/{ns}"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
OFTEN: dict[str, Any] = {
    "page": "404 page not found\n",
    "resource": {
        "code": 404, "reason": "NotFound", "details": {}, "message": "the server could not find the requested resource",
    },
    "method": {
        "code": 405, "reason": "MethodNotAllowed", "details": {},
        "message": "the server does not allow this method on the requested resource",
    },
}  # fmt: skip


def refusal(answer: Answer, namespace: str) -> Json | str:
    """The refusal in a response, as in the table."""
    if isinstance(answer.body, bytes):
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        return answer.body.decode()
    status = dict(answer.body)
    common = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    assert {name: status.pop(name) for name in common} == common
    assert status["code"] == answer.code
    if "causes" in status.get("details", {}):
        causes = [[cause.get("field"), cause.get("reason")] for cause in status["details"]["causes"]]
        status["details"] = {**status["details"], "causes": causes}
    return {**status, "message": status["message"].replace(namespace, "{ns}")}


def test_each_refusal_has_the_shape_that_kube_apiserver_gives_it(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a"))
    space.create(PODS, pod("p"))
    space.create(TFJOBS, tfjob("j", Worker=1))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    deployment = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    for path, body in (
        (DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": deployment}),
        (f"{CORE}/secrets", {"metadata": {"name": "s"}, "type": "example.com/x", "data": {"a": "MQ=="}}),
    ):
        group_version = {"apiVersion": "apps/v1" if path == DEPLOYMENTS else "v1"}
        kind = {"kind": "Deployment" if path == DEPLOYMENTS else "Secret"}
        made = space.http("POST", path.replace("{ns}", space.namespace), {**group_version, **kind, **body})
        assert made.code == 201

    different = {}
    for name, case in CASES.items():
        method, _, path = case["request"].replace("{ns}", space.namespace).partition(" ")
        body = case["text"].encode() if "text" in case else case.get("body")
        headers = {"accept": case.get("accept", "application/json"), "token": case.get("token")}
        answer = space.http(method, path, body, content_type=case.get("type", "application/json"), **headers)
        actual, wanted = refusal(answer, space.namespace), case["refusal"]
        wanted = OFTEN.get(wanted, wanted) if isinstance(wanted, str) else wanted
        if isinstance(actual, dict) and "message" not in wanted:
            del actual["message"]
        if actual != wanted:
            different[name] = (actual, wanted)

    assert not different


def test_a_secret_is_replaced_as_a_whole_and_its_plain_data_is_encoded(space: Space) -> None:
    path = f"{CORE}/secrets".replace("{ns}", space.namespace)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "o"}}
    assert space.http("POST", path, {**secret, "data": {"a": "MQ=="}}).body["type"] == "Opaque"
    plain = {"stringData": {"b": "three", "c": "four"}}
    replaced = space.http("PUT", f"{path}/o", {**secret, "data": {"a": "MQ==", "b": "Mg=="}, **plain}).body
    assert replaced["data"] == {"a": "MQ==", "b": "dGhyZWU=", "c": "Zm91cg=="}
    assert "stringData" not in replaced
    merge = "application/merge-patch+json"
    patched = space.http("PATCH", f"{path}/o", {"stringData": {"b": "two"}}, content_type=merge).body
    assert patched["data"] == {"a": "MQ==", "b": "dHdv", "c": "Zm91cg=="}
    assert "stringData" not in space.http("GET", f"{path}/o").body


def test_a_status_has_an_owner_of_its_own(space: Space) -> None:
    path = space.path(PODS, "p")
    apply, merge = "application/apply-patch+yaml", "application/merge-patch+json"
    assert space.http("PATCH", f"{path}?fieldManager=somebody", pod("p"), content_type=apply).code == 201
    status = {"status": {"phase": "Running"}}
    changed = space.http("PATCH", f"{path}/status?fieldManager=somebody", status, content_type=merge).body
    owners = {field.get("subresource", ""): field for field in changed["metadata"]["managedFields"]}
    assert {name: (entry["manager"], entry["operation"]) for name, entry in owners.items()} == {
        "": ("somebody", "Apply"), "status": ("somebody", "Update"),
    }  # fmt: skip
    assert owners["status"]["fieldsV1"] == {"f:status": {"f:phase": {}}}
    again = space.http(
        "PATCH", f"{path}/status?fieldManager=somebody", {"status": {"phase": "Failed"}}, content_type=merge
    )
    assert len(again.body["metadata"]["managedFields"]) == 2


def test_a_target_may_be_a_whole_url(space: Space) -> None:
    for scheme in ("https", "HTTP"):
        whole = space.http("GET", f"{scheme}://somewhere.example:8/api/v1/namespaces/{space.namespace}?a=b")
        assert (whole.code, whole.body["metadata"]["name"]) == (200, space.namespace)
