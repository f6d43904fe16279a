from typing import Any

import pytest

from tests.unit.local.apiserver.samples import refused
from tfoperator.local.apiserver.registry.patch import json_patch, patcher, strategic_merge
from tfoperator.local.apiserver.resource_types import PODS


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "jump", "path": "/a"}], 422),
        ([{"path": "/a"}], 422),
        (["nonsense"], 400),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "add", "path": "/a/b", "value": 1}], 422),
        ([{"op": "add", "path": "no-slash", "value": 1}], 422),
        ([{"op": "replace", "path": "", "value": []}], 422),
        ([{"op": "copy", "path": "/b"}], 422),
        ([{"op": "copy", "from": "/x/-", "path": "/b"}], 422),
    ],
)
def test_a_json_patch_that_fails_says_whose_fault_it_is(operations: list[Any], code: int) -> None:
    with refused(code):
        json_patch({"a": 1, "x": [1]}, operations)


def test_a_patch_may_have_ten_thousand_operations() -> None:
    assert json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 1}] * 10_000) == {"a": 1}


@pytest.mark.parametrize(
    "body",
    [b"[1", b'"text"', b"[]", b'{"a": "\xff"}', b'{"a":' + b"[" * 100_000],
    ids=["cut off", "not an object", "a list where an object belongs", "no text", "too deep"],
)
def test_a_body_that_is_no_patch_is_a_bad_request(body: bytes) -> None:
    with refused(400):
        patcher(PODS, "application/merge-patch+json", body)


@pytest.mark.parametrize(
    "patch",
    [{"$patch": "explode"}, {"spec": {"containers": [{"image": "no name"}]}}, {"spec": {"containers": ["text"]}}],
)
def test_a_malformed_strategic_patch_is_a_bad_request(patch: dict[str, Any]) -> None:
    with refused(400):
        strategic_merge({"metadata": {}, "spec": {"containers": [{"name": "a"}]}}, patch, "Pod")
