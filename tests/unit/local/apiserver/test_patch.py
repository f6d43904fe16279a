from __future__ import annotations

from typing import Any

import pytest

from tests.unit.local.apiserver.samples import widgets
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.kinds import PODS
from tfoperator.local.apiserver.patch import json_patch, merge_patch, patcher
from tfoperator.local.apiserver.strategic import strategic_merge


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_does_what_its_rfc_says(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "jump", "path": "/a"}], 400),
        ([{"path": "/a"}], 400),
        (["nonsense"], 400),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "add", "path": "/a/b", "value": 1}], 422),
        ([{"op": "add", "path": "no-slash", "value": 1}], 422),
        ([{"op": "replace", "path": "", "value": []}], 422),
    ],
)
def test_a_json_patch_that_fails_says_whose_fault_it_is(operations: list[Any], code: int) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({"a": 1}, operations)

    assert caught.value.code == code


@pytest.mark.parametrize(
    "body", [b"[1", b'"text"', b"[]"], ids=["cut off", "not an object", "a list where an object belongs"]
)
def test_a_body_that_is_no_patch_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(StatusError) as caught:
        patcher(PODS, "application/merge-patch+json", body)

    assert caught.value.code == 400


@pytest.mark.parametrize("content_type", ["application/json", "application/apply-patch+yaml", ""])
def test_other_content_types_are_not_accepted(content_type: str) -> None:
    with pytest.raises(StatusError) as caught:
        patcher(PODS, content_type, b"{}")

    assert caught.value.code == 415


def test_custom_kinds_take_no_strategic_patch() -> None:
    with pytest.raises(StatusError, match="merge-patch"):
        patcher(widgets().resource, "application/strategic-merge-patch+json", b"{}")


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": list(containers)}}


def test_nested_lists_merge_by_their_own_keys() -> None:
    before = pod({"name": "a", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 1, "name": "p"}]})
    patch = pod({"name": "a", "env": [{"name": "Y", "value": "2"}], "ports": [{"containerPort": 1, "name": "q"}]})

    (container,) = strategic_merge(before, patch, "Pod")["spec"]["containers"]

    assert {variable["name"] for variable in container["env"]} == {"X", "Y"}
    assert container["ports"] == [{"containerPort": 1, "name": "q"}]


def test_lists_without_a_key_are_replaced() -> None:
    before = pod({"name": "a", "args": ["1", "2"]})

    (container,) = strategic_merge(before, pod({"name": "a", "args": ["3"]}), "Pod")["spec"]["containers"]

    assert container["args"] == ["3"]


def test_an_element_can_be_deleted_and_a_list_replaced() -> None:
    before = pod({"name": "a"}, {"name": "b"})

    deleted = strategic_merge(pod({"name": "a"}, {"name": "b"}), pod({"name": "a", "$patch": "delete"}), "Pod")
    replaced = strategic_merge(before, pod({"$patch": "replace"}, {"name": "c"}), "Pod")

    assert deleted == pod({"name": "b"})
    assert replaced == pod({"name": "c"})


def test_retain_keys_drops_the_alternatives() -> None:
    before = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}

    assert strategic_merge(before, patch, "Pod") == {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}


def test_what_only_the_server_has_keeps_its_place_before_what_followed_it() -> None:
    before = {"spec": {"ports": [{"port": 1}, {"port": 2}, {"port": 3}]}}

    merged = strategic_merge(before, {"spec": {"ports": [{"port": 3, "name": "x"}, {"port": 9}]}}, "Service")

    assert [port["port"] for port in merged["spec"]["ports"]] == [1, 2, 3, 9]


@pytest.mark.parametrize(
    "patch",
    [
        {"$patch": "explode"},
        {"spec": {"containers": [{"image": "no name"}]}},
        {"spec": {"containers": ["text"]}},
    ],
)
def test_a_malformed_strategic_patch_is_a_bad_request(patch: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        strategic_merge(pod({"name": "a"}), patch, "Pod")

    assert caught.value.code == 400
