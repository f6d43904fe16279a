import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.kube import apply_merge_patch


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
def test_it_does_what_its_rfc_says(target: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(target, patch) == result


NAMES = st.sampled_from("abc")
SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.lists(st.none() | st.integers(0, 2), max_size=2)
JSON = st.recursive(SCALARS, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=10)


@given(JSON, JSON)
def test_neither_argument_is_changed_and_a_second_time_changes_nothing(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    result = apply_merge_patch(target, patch)
    assert (target, patch) == before
    assert apply_merge_patch(result, patch) == result


@given(JSON, st.dictionaries(NAMES, JSON))
def test_each_member_is_removed_merged_or_left_alone(target: Any, patch: dict[str, Any]) -> None:
    old = target if isinstance(target, dict) else {}
    result = apply_merge_patch(target, patch)
    for name in "abc":
        if name not in patch:
            assert (name in result, result.get(name)) == (name in old, old.get(name))
        elif patch[name] is None:
            assert name not in result
        else:
            assert result[name] == apply_merge_patch(old.get(name), patch[name])
