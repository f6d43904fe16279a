from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.fields.structure import drop_nulls, type_problems, unknown_members
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJobSpec


class Leaf(msgspec.Struct, rename="camel"):
    must_be: str
    number: int = 0
    quantity: str | int | None = None
    share: float = 0.0


class Tree(msgspec.Struct, rename="camel"):
    leaves: tuple[Leaf, ...] = ()
    by_name: dict[str, Leaf | None] = {}
    flag: bool = False
    anything: msgspec.Raw = msgspec.Raw()
    hidden: str = msgspec.field(default="", name="-")


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({}, []),
        ({"leaves": [{"mustBe": "a", "quantity": 1}, {"mustBe": "b", "quantity": "1Gi"}]}, []),
        ({"byName": {"a": None}}, []),
        ({"leaves": None, "flag": None}, []),
        ({"anything": [1, {"x": None}], "unknown": 1}, []),
        ({"leaves": [{"mustBe": "a", "share": 1}]}, []),
        ([], [": must be an object, but is a list"[2:]]),
        ({"leaves": {}}, ["leaves: must be a list, but is an object"]),
        ({"leaves": ["x", {"mustBe": "a", "number": 1.5}]},
         ['leaves[0]: must be an object, but is the string "x"',
          "leaves[1].number: must be a whole number, but is the number 1.5"]),
        ({"byName": {"a": {}, "b": {"mustBe": None}}},
         ["byName[a].mustBe: is required", "byName[b].mustBe: must be a string, but is null"]),
        ({"byName": {"a": {"mustBe": "x", "quantity": []}}},
         ["byName[a].quantity: must be a string or a whole number, but is a list"]),
        ({"flag": 1}, ["flag: must be true or false, but is the number 1"]),
        ({"leaves": [{"mustBe": "a", "number": True}]}, ["leaves[0].number: must be a whole number, but is true"]),
        ({"flag": "x" * 100}, [f'flag: must be true or false, but is the string "{"x" * 56}...']),
    ],
)  # fmt: skip
def test_wrong_types_are_told_with_their_path(value: object, problems: list[str]) -> None:
    assert [str(problem) for problem in type_problems(value, Tree)] == problems


def test_a_time_must_be_one_and_nulls_are_dropped_where_the_types_know_none() -> None:
    (problem,) = type_problems({"startTime": "soon"}, TFJobStatus)
    assert str(problem) == 'startTime: must be a time such as 2026-01-31T12:00:00Z, but is the string "soon"'
    assert type_problems({"startTime": "2026-01-31T12:00:00Z"}, TFJobStatus) == []
    value = {"leaves": [None, {"mustBe": "a", "number": None, "quantity": None}], "byName": {"a": None}, "flag": None}
    assert drop_nulls(value, Tree) == {"leaves": [{"mustBe": "a", "quantity": None}], "byName": {"a": None}}
    assert drop_nulls({"anything": {"x": None}, "unknown": None}, Tree) == {"anything": {"x": None}, "unknown": None}


def test_unknown_members_are_found_at_any_depth() -> None:
    value = {"leafs": 1, "byName": {"a": {"mustbe": 1}}, "leaves": [{}, {"x": 1}], "anything": {"y": 1}, "-": 1}
    assert [(unknown.path, unknown.name) for unknown in unknown_members(value, Tree)] == [
        ("", "leafs"),
        ("", "-"),
        ("byName[a]", "mustbe"),
        ("leaves[1]", "x"),
    ]


names = st.sampled_from(["tfReplicaSpecs", "Worker", "replicas", "template", "runPolicy", "suspend", "queue", "x"])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just("x"),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(names, children, max_size=4),
)


@given(st.dictionaries(names, values))
def test_it_agrees_with_msgspec_about_what_is_right(value: dict[str, Any]) -> None:
    value = drop_nulls(value, TFJobSpec)
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=TFJobSpec)
    except msgspec.ValidationError:
        assert type_problems(value, TFJobSpec)
    else:
        assert type_problems(value, TFJobSpec) == []
