import json
import os
from base64 import b64encode
from datetime import UTC, datetime

import pytest

from tests.contract.support import CONFIG_MAPS, PODS, TFJOBS, Space, config_map, pod, refused, tfjob
from tfoperator.kube.protocol.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from tfoperator.kube.protocol.resources import LEASES, SECRETS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import PatchType

ALONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The metadata alone, or else the whole."""


def test_the_server_completes_what_it_stores_and_chooses_uid_and_time_itself(space: Space) -> None:
    body = config_map("a", key="value")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    before = datetime.now(UTC).replace(microsecond=0)
    made = space.create(CONFIG_MAPS, body)["metadata"]
    assert before <= datetime.fromisoformat(made["creationTimestamp"]) <= datetime.now(UTC)
    assert (len(made["uid"]), made["namespace"]) == (36, space.namespace)
    assert int(made["resourceVersion"]) > 0
    assert space.get(CONFIG_MAPS, "a")["metadata"]["uid"] == made["uid"]


def test_a_secret_takes_plain_text_when_it_is_made_and_whenever_it_is_changed(space: Space) -> None:
    def encoded(text: str) -> str:
        return b64encode(text.encode()).decode()

    made = space.create(SECRETS, {"metadata": {"name": "a"}, "stringData": {"key": "one"}})
    replaced = space.replace(SECRETS, {**made, "stringData": {"other": "two"}})
    patched = space.patch(SECRETS, "a", {"stringData": {"key": "three"}})
    assert made["data"] == {"key": encoded("one")}
    assert replaced["data"] == {"key": encoded("one"), "other": encoded("two")}
    assert patched["data"] == {"key": encoded("three"), "other": encoded("two")}
    assert all("stringData" not in secret for secret in (made, replaced, patched))


def test_the_type_of_a_secret_is_opaque_unless_it_is_given_and_stays(space: Space) -> None:
    made = space.create(SECRETS, {"metadata": {"name": "a"}})
    given = space.create(SECRETS, {"metadata": {"name": "b"}, "type": "example.com/key"})
    without = {name: value for name, value in made.items() if name != "type"}
    assert (made["type"], given["type"], space.replace(SECRETS, without)["type"]) == (
        "Opaque",
        "example.com/key",
        "Opaque",
    )
    assert "data" not in made
    with refused(InvalidError, "type: Invalid value: ", "field is immutable"):
        space.patch(SECRETS, "a", {"type": "example.com/key"})


@pytest.mark.parametrize("resource", [SECRETS, CONFIG_MAPS])
def test_the_data_of_what_is_immutable_stays_and_its_labels_may_change(space: Space, resource: Resource) -> None:
    space.create(resource, {"metadata": {"name": "a"}, "data": {"key": "b25l"}, "immutable": True})
    for change in ({"data": {"key": "dHdv"}}, {"immutable": False}):
        with refused(InvalidError, "field is immutable when `immutable` is set"):
            space.patch(resource, "a", change)
    assert space.patch(resource, "a", {"metadata": {"labels": {"x": "y"}}})["data"] == {"key": "b25l"}


def test_a_name_can_be_generated(space: Space) -> None:
    body = {"metadata": {"generateName": "job-"}}
    names = {space.create(CONFIG_MAPS, dict(body))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("job-") and len(name) == len("job-") + 5 for name in names)


def test_writes_can_be_answered_with_metadata_alone_but_for_deletions_that_answer_with_a_status(space: Space) -> None:
    made = space.http("POST", space.path(PODS), pod("a"), accept=ALONE)
    change = {"metadata": {"labels": {"x": "y"}}}
    changed = space.http("PATCH", space.path(PODS, "a"), change, accept=ALONE, content_type=PatchType.MERGE)
    deleted = space.http("DELETE", space.path(PODS, "a"), accept=ALONE)
    for answer in (made, changed, deleted):
        assert answer.body["kind"] == "PartialObjectMetadata"
        assert answer.body["metadata"]["name"] == "a"
        assert "spec" not in answer.body
    assert changed.body["metadata"]["labels"]["x"] == "y"
    space.create(CONFIG_MAPS, config_map("a"))
    for path, code in ((space.path(PODS, "nope"), 404), (space.path(CONFIG_MAPS, "a"), 200)):
        answer = space.http("DELETE", path, accept=ALONE)
        assert (answer.code, answer.body["kind"]) == (code, "Status")


def test_a_taken_name_is_refused_and_what_is_not_there_is_not_found(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a"))
    with refused(AlreadyExistsError, 'configmaps "a" already exists'):
        space.create(CONFIG_MAPS, config_map("a"))
    with refused(NotFoundError, 'namespaces "no-such-place" not found'):
        space.client.create(CONFIG_MAPS, "no-such-place", config_map("a"), bytes)
    with refused(NotFoundError, 'tfjobs.kubeflow.org "nope" not found'):
        space.get(TFJOBS, "nope")
    with refused(NotFoundError, '"nope"'):
        space.delete(PODS, "nope")
    with refused(NotFoundError, '"nope"'):
        space.patch(PODS, "nope", {"metadata": {"labels": {"a": "b"}}})
    with refused(NotFoundError, '"nope"'):
        space.replace(CONFIG_MAPS, config_map("nope"))


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot."])
def test_a_malformed_name_is_invalid(space: Space, name: str) -> None:
    with refused(InvalidError, "metadata.name", name):
        space.create(CONFIG_MAPS, config_map(name))


def test_an_object_has_a_name_and_that_of_a_service_is_one_label(space: Space) -> None:
    with refused(InvalidError, "name or generateName is required"):
        space.create(CONFIG_MAPS, {"metadata": {}})
    with refused(InvalidError, "metadata.name", "label must consist of"):
        space.create(SERVICES, {"metadata": {"name": "under_score"}, "spec": {"ports": [{"port": 1}]}})


@pytest.mark.skipif(os.environ.get("KUBERNETES", "").startswith("1.35"), reason="Kubernetes 1.36 began with this")
def test_a_service_name_may_begin_with_a_digit(space: Space) -> None:
    space.create(SERVICES, {"metadata": {"name": "0-service"}, "spec": {"ports": [{"port": 1}]}})


@pytest.mark.parametrize("labels", [{"a b": "c"}, {"a": "b c"}, {"a": "x" * 64}, {"UP.case/a": "b"}, {"a/b/c": "d"}])
def test_malformed_labels_are_invalid(space: Space, labels: dict[str, str]) -> None:
    with refused(InvalidError, "metadata.labels"):
        space.create(CONFIG_MAPS, config_map("a", labels))


def test_a_stale_version_and_another_uid_conflict(space: Space) -> None:
    first = space.create(CONFIG_MAPS, config_map("a", key="1"))
    second = space.replace(CONFIG_MAPS, {**first, "data": {"key": "2"}})
    with refused(ConflictError, "the object has been modified"):
        space.replace(CONFIG_MAPS, {**first, "data": {"key": "3"}})
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    body = config_map("a", key="4")
    body["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    with refused(ConflictError, "UID"):
        space.replace(CONFIG_MAPS, body)
    assert space.get(CONFIG_MAPS, "a")["data"] == {"key": "2"}


def test_built_in_kinds_can_be_replaced_without_a_version_custom_ones_and_leases_can_not(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a", key="1"))
    assert space.replace(CONFIG_MAPS, config_map("a", key="2"))["data"] == {"key": "2"}
    space.create(TFJOBS, tfjob("a"))
    space.create(LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})
    with refused(InvalidError, "metadata.resourceVersion"):
        space.replace(TFJOBS, tfjob("a", Worker=3))
    with refused(InvalidError, "metadata.resourceVersion"):
        space.replace(LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "you"}})


def test_a_write_that_changes_nothing_keeps_the_version_and_a_replace_drops_what_it_leaves_out(space: Space) -> None:
    made = space.create(CONFIG_MAPS, config_map("a", {"x": "y"}, key="1"))
    same = space.replace(CONFIG_MAPS, made)
    patched = space.patch(CONFIG_MAPS, "a", {"data": {"key": "1"}})
    assert len({obj["metadata"]["resourceVersion"] for obj in (made, same, patched)}) == 1
    made["metadata"].pop("labels")
    replaced = space.replace(CONFIG_MAPS, {**made, "data": {"other": "2"}})
    assert "labels" not in replaced["metadata"]
    assert replaced["data"] == {"other": "2"}


def test_body_and_url_have_to_agree(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a"))
    elsewhere = config_map("b")
    elsewhere["metadata"]["namespace"] = "default"
    with refused(BadRequestError, "namespace"):
        space.create(CONFIG_MAPS, elsewhere)
    with refused(BadRequestError, "name"):
        space.client.replace(CONFIG_MAPS, space.namespace, "a", config_map("b"), bytes)
    for other in ({"kind": "Secret"}, {"apiVersion": "v9"}):
        assert space.http("POST", space.path(CONFIG_MAPS), {**config_map("b"), **other}).code == 400


def test_a_dry_run_checks_and_stores_nothing(space: Space) -> None:
    good = space.http("POST", f"{space.path(PODS)}?dryRun=All", pod("a"))
    bad = space.http("POST", f"{space.path(PODS)}?dryRun=All", pod("a", containers=[]))
    assert (good.code, good.body["spec"]["restartPolicy"], bad.code) == (201, "Always", 422)
    assert space.names(PODS) == []
    space.create(CONFIG_MAPS, config_map("a", key="1"))
    path = f"{space.path(CONFIG_MAPS, 'a')}?dryRun=All"
    patched = space.http("PATCH", path, {"data": {"key": "2"}}, content_type=PatchType.MERGE)
    deleted = space.http("DELETE", path)
    assert (patched.body["data"], deleted.code) == ({"key": "2"}, 200)
    assert space.get(CONFIG_MAPS, "a")["data"] == {"key": "1"}


def test_yaml_is_understood(space: Space) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
    assert space.http("POST", space.path(CONFIG_MAPS), body, content_type="application/yaml").code == 201


MISTYPED = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":[]}'
NESTED = b'{"data":' * 20_000 + b"1" + b"}" * 20_000
LARGE = json.dumps(config_map("a", key="x" * (3 << 20))).encode()


@pytest.mark.parametrize(
    ("body", "content_type", "code", "reason"),
    [
        (b"<xml/>", "text/xml", 415, "UnsupportedMediaType"),
        *((body, "application/json", 400, "BadRequest") for body in (b"{", b"", MISTYPED, NESTED)),
        (LARGE, "application/json", 413, "RequestEntityTooLarge"),
    ],
    ids=["xml", "half", "nothing", "a list in place of an object", "nested without end", "more than three mebibytes"],
)
def test_a_body_that_can_not_be_read_is_refused(
    space: Space, body: bytes, content_type: str, code: int, reason: str
) -> None:
    answer = space.http("POST", space.path(CONFIG_MAPS), body, content_type=content_type)
    assert (answer.code, answer.body["reason"]) == (code, reason)
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Failure")


def test_a_field_of_the_wrong_type_is_a_bad_request(space: Space) -> None:
    with refused(BadRequestError, "containers"):
        space.create(PODS, pod("a", containers="none"))


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        *(
            ("GET", path, 404)
            for path in ("/apis/nope/v1/things", "/api/v1/namespaces/default/nope", "/api/v2", "/nope")
        ),
        ("PUT", "/api/v1/namespaces/default/configmaps", 405),
        ("POST", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/namespaces", 405),
    ],
)
def test_a_path_that_is_unknown_or_does_not_have_the_method_is_refused(
    space: Space, method: str, path: str, code: int
) -> None:
    assert space.http(method, path, {} if method in ("PUT", "POST") else None).code == code


@pytest.mark.parametrize("token", ["", "wrong"])
def test_nobody_gets_in_without_the_token(space: Space, token: str) -> None:
    answer = space.http("GET", space.path(PODS), token=token or "x")
    assert (answer.code, answer.body["reason"], answer.body["kind"]) == (401, "Unauthorized", "Status")


def test_generation_counts_changes_of_the_spec_only(space: Space) -> None:
    made = space.create(TFJOBS, tfjob("a"))
    labelled = space.patch(TFJOBS, "a", {"metadata": {"labels": {"x": "y"}}})
    scaled = space.patch(TFJOBS, "a", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})
    observed = space.set_status(TFJOBS, "a", {"startTime": "2026-01-01T00:00:00Z"})
    generations = [step["metadata"]["generation"] for step in (made, labelled, scaled, observed)]
    assert generations == [1, 1, 2, 2]


def test_a_service_keeps_none_as_its_address_and_else_gets_one(space: Space) -> None:
    spec = {"selector": {"a": "b"}, "ports": [{"port": 2222, "name": "tfjob-port"}]}
    headless = space.create(SERVICES, {"metadata": {"name": "headless"}, "spec": {**spec, "clusterIP": "None"}})
    normal = space.create(SERVICES, {"metadata": {"name": "normal"}, "spec": spec})
    assert headless["spec"]["clusterIP"] == "None"
    assert normal["spec"]["clusterIP"].startswith("10.")
    assert normal["spec"]["ports"][0] == {"name": "tfjob-port", "port": 2222, "targetPort": 2222, "protocol": "TCP"}
    with refused(InvalidError, "spec.clusterIP"):
        space.patch(SERVICES, "normal", {"spec": {"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"]}})
