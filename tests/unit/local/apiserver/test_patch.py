from __future__ import annotations

from typing import Any

import pytest

from tests.unit.local.apiserver.samples import widgets
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.kinds import PODS
from tfoperator.local.apiserver.patch import json_patch, merge_patch, patcher, strategic_merge


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
    "body",
    [b"[1", b'"text"', b"[]", b'{"a": "\xff"}', b'{"a":' + b"[" * 100_000],
    ids=["cut off", "not an object", "a list where an object belongs", "no text", "too deep"],
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
