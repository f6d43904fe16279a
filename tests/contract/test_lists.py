import json
from typing import Any

import msgspec
import pytest

from tests.contract.support import CONFIG_MAPS, PODS, TFJOBS, Space, config_map, decode, names_of, pod, refused, tfjob
from tfoperator.kube import ListOptions
from tfoperator.kube.http.sending.requests import METADATA_OF_LIST, list_query
from tfoperator.kube.protocol.errors import ApiError, BadRequestError, GoneError
from tfoperator.kube.protocol.resources import EVENTS, SECRETS
from tfoperator.kube.protocol.verbs import decode_metadata


def test_pages_show_one_moment_whatever_happens_between_them(space: Space) -> None:
    for index in range(5):
        space.create(SECRETS, {"metadata": {"name": f"s{index}"}})
    first = space.page(SECRETS, limit=2)

    space.delete(SECRETS, "s3")
    space.create(SECRETS, {"metadata": {"name": "s9"}})
    names, token = names_of(first), first.continue_token
    while token:
        page = space.page(SECRETS, limit=2, continue_token=token)
        assert page.resource_version == first.resource_version
        names += names_of(page)
        token = page.continue_token

    assert names == ["s0", "s1", "s2", "s3", "s4"]
    assert (len(first.items), first.remaining_item_count) == (2, 3)


def test_a_limit_counts_what_the_selector_matches_and_the_last_page_has_no_continuation(space: Space) -> None:
    for index in range(6):
        space.create(SECRETS, {"metadata": {"name": f"s{index}", "labels": {"odd": str(index % 2)}}})
    first = space.page(SECRETS, limit=2, label_selector="odd=1")
    rest = space.page(SECRETS, limit=2, label_selector="odd=1", continue_token=first.continue_token)
    whole = space.page(SECRETS, limit=6)
    assert names_of(first) + names_of(rest) == ["s1", "s3", "s5"]
    assert first.remaining_item_count is None
    assert (whole.continue_token, whole.remaining_item_count) == ("", None)


@pytest.mark.parametrize(
    ("selection", "word"),
    [
        ({"limit": 2, "continue_token": "nonsense"}, "continue"),
        *(({"label_selector": bad}, "") for bad in ("a=b=c", "a in b", "a,", "=x", "a in (b")),
        ({"field_selector": "spec.hostname=x"}, "spec.hostname"),
    ],
)
def test_a_list_of_what_makes_no_sense_is_a_bad_request(space: Space, selection: dict[str, Any], word: str) -> None:
    with refused(BadRequestError, word):
        space.page(PODS, **selection)


def test_a_list_is_of_the_past_or_current_or_any_as_its_version_is_meant(space: Space) -> None:
    before = space.create(SECRETS, {"metadata": {"name": "a"}})["metadata"]["resourceVersion"]
    current = space.page(SECRETS, resource_version=before, resource_version_match="NotOlderThan")
    assert names_of(current) == ["a"]
    assert int(current.resource_version) >= int(before)
    space.create(SECRETS, {"metadata": {"name": "b"}})
    space.delete(SECRETS, "a")
    past = space.page(SECRETS, resource_version=before, resource_version_match="Exact")
    assert (names_of(past), past.resource_version) == (["a"], before)
    assert int(space.page(SECRETS, resource_version="0").resource_version) > 0


def test_a_version_from_the_future_is_too_large_and_one_from_long_ago_has_expired(space: Space) -> None:
    version = space.create(SECRETS, {"metadata": {"name": "a"}})["metadata"]["resourceVersion"]
    path = f"{space.path(SECRETS)}?resourceVersion={int(version) + 10**6}&resourceVersionMatch=NotOlderThan"
    answer = space.http("GET", path)
    assert (answer.code, answer.body["reason"]) == (504, "Timeout")
    assert "Too large resource version" in answer.body["message"]
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    with refused(ApiError):
        space.page(TFJOBS, resource_version="-1")
    with space.watch(TFJOBS, resource_version="1") as events, pytest.raises(GoneError) as caught:
        next(events)
    assert caught.value.reason in ("Expired", "Gone")


@pytest.mark.parametrize(
    "query",
    [
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=X",
    ],
)
def test_contradictory_versions_are_invalid(space: Space, query: str) -> None:
    answer = space.http("GET", f"{space.path(SECRETS)}?{query}")
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert "resourceVersionMatch" in answer.body["message"]


LABELLED = {"a": {"tier": "web", "n": "1"}, "b": {"tier": "db"}, "c": {"tier": "web", "gone": ""}, "d": {}}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=web", "a c"),
        ("tier==db", "b"),
        ("tier!=web", "b d"),
        ("tier", "a b c"),
        ("!tier", "d"),
        ("tier in (web,db)", "a b c"),
        ("tier notin (web)", "b d"),
        ("tier=web,n=1", "a"),
        ("tier=web,!n", "c"),
        ("gone=", "c"),
        ("n>0", "a"),
        ("n<1", ""),
        (" tier = web ", "a c"),
    ],
)
def test_label_selectors(space: Space, selector: str, names: str) -> None:
    for name, labels in LABELLED.items():
        space.create(SECRETS, {"metadata": {"name": name, "labels": labels}})
    assert space.names(SECRETS, label_selector=selector) == names.split()


def test_field_selectors_of_pods(space: Space) -> None:
    space.create(PODS, pod("a", nodeName="node-1"))
    space.create(PODS, pod("b"))
    space.set_status(PODS, "a", {"phase": "Running"})
    assert space.names(PODS, field_selector="spec.nodeName=node-1") == ["a"]
    assert space.names(PODS, field_selector="spec.nodeName=") == ["b"]
    assert space.names(PODS, field_selector="status.phase!=Running") == ["b"]
    assert space.names(PODS, field_selector="metadata.name=b,status.phase=Pending") == ["b"]
    assert space.names(PODS, field_selector=f"metadata.namespace!={space.namespace}") == []


def test_field_selectors_of_events(space: Space) -> None:
    for name in ("a", "b"):
        about = {"kind": "TFJob", "name": name, "namespace": space.namespace, "uid": f"uid-{name}"}
        fields = {"reason": "Tested", "type": "Normal", "source": {"component": "test"}}
        space.create(EVENTS, {"metadata": {"name": f"e-{name}"}, "involvedObject": about, **fields})
    assert space.names(EVENTS, field_selector="involvedObject.name=a,involvedObject.kind=TFJob") == ["e-a"]
    assert space.names(EVENTS, field_selector="involvedObject.uid=uid-b,reason=Tested") == ["e-b"]
    assert space.names(EVENTS, field_selector="type=Warning") == []
    with refused(BadRequestError, "data"):
        space.names(CONFIG_MAPS, field_selector="data=x")


def test_a_list_over_all_namespaces(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    page = space.client.list(TFJOBS, "", decode)
    assert (space.namespace, "a") in {(i["metadata"]["namespace"], i["metadata"]["name"]) for i in page.items}


def test_lists_of_metadata_only(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a", {"x": "y"}, key="value"))

    selection = ListOptions(field_selector="metadata.name=a")
    page = space.client.list(CONFIG_MAPS, space.namespace, decode_metadata, selection)
    target = CONFIG_MAPS.path(space.namespace) + list_query(selection)
    raw = msgspec.json.decode(space.client.get_raw(target, accept=METADATA_OF_LIST))

    assert [item.metadata.labels for item in page.items] == [{"x": "y"}]
    (item,) = raw["items"]
    assert item["kind"] == "PartialObjectMetadata"
    assert "data" not in item


def test_protobuf_is_optional_for_clients_that_can_read_json_but_something_must_be_readable(space: Space) -> None:
    answer = space.http("GET", space.path(TFJOBS), accept="application/vnd.kubernetes.protobuf,application/json")
    assert (answer.code, answer.body["kind"]) == (200, "TFJobList")
    assert space.http("GET", space.path(TFJOBS), accept="image/png").code == 406


@pytest.mark.parametrize("digits", [20, 400, 5000])
@pytest.mark.parametrize(
    "query", ["limit=N", "watch=true&timeoutSeconds=N", "resourceVersion=N", "labelSelector=a%3EN"]
)
def test_a_number_that_has_no_room_in_64_bits_is_refused(space: Space, query: str, digits: int) -> None:
    answer = space.http("GET", f"{space.path(SECRETS)}?{query.replace('N', '9' * digits)}")
    assert answer.code == 400


@pytest.mark.controlplane
def test_kubectl_creates_and_applies_what_a_list_has(space: Space) -> None:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("a", "b")]
    items.append({**tfjob("job", Worker=1), "apiVersion": "kubeflow.org/v1", "kind": "TFJob"})
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert space.kubectl("apply", "-f", "-", stdin=manifest).count(" created") == 3
    assert space.kubectl("apply", "-f", "-", stdin=manifest).count(" unchanged") == 3
    space.kubectl("delete", "-f", "-", stdin=manifest)
    assert space.kubectl("create", "-f", "-", stdin=manifest).count(" created") == 3
