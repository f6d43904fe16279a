from typing import Any

import pytest

from tests.unit.local.apiserver.samples import SCHEMA
from tfoperator.local.apiserver.objects.structural_schema import StructuralSchema

WIDGET = StructuralSchema(SCHEMA)


def problems(**spec: Any) -> list[str]:
    return [str(problem) for problem in WIDGET.validate({"spec": {"size": 1, **spec}})]


def test_unknown_fields_are_dropped_wherever_they_are() -> None:
    parts, groups = [{"id": "a", "extra": 1}], {"g": {"count": 1, "extra": 2}}
    spec = {"typo": 1, "open": {"any": {"thing": 1}}, "parts": parts, "groups": groups}
    obj = {"metadata": {"anything": "goes"}, "spec": spec, "other": {}}
    assert sorted(WIDGET.prune(obj)) == ["other", "spec.groups.g.extra", "spec.parts[0].extra", "spec.typo"]
    assert obj == {
        "metadata": {"anything": "goes"},
        "spec": {"open": {"any": {"thing": 1}}, "parts": [{"id": "a"}], "groups": {"g": {"count": 1}}},
    }


def test_defaults_fill_in_what_is_absent_or_null_where_null_is_not_allowed_and_are_not_shared() -> None:
    spec = {"size": None, "maybe": None, "colour": None, "parts": [{"id": "a"}], "groups": {"g": {}}}
    obj: dict[str, Any] = {"spec": spec}
    WIDGET.default(obj)
    assert obj["spec"] == {"size": 1, "maybe": None, "parts": [{"id": "a", "weight": 5}], "groups": {"g": {"count": 1}}}
    schema = StructuralSchema({"type": "object", "properties": {"list": {"type": "array", "default": []}}})
    first, second = dict[str, Any](), dict[str, Any]()
    schema.default(first)
    schema.default(second)
    first["list"].append(1)
    assert second["list"] == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"size": -1}, "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0"),
        ({"size": 2**31}, f"spec.size: Invalid value: {2**31}: spec.size in body should be less than or equal to"),
        ({"size": "1"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "1"'),
        ({"size": True}, 'spec.size: Invalid value: "boolean": spec.size in body must be of type integer'),
        ({"colour": "blue"}, 'spec.colour: Unsupported value: "blue": supported values: "red", "green"'),
        ({"name": "x"}, 'spec.name: Invalid value: "x": spec.name in body should be at least 2 chars long'),
        ({"name": "toolong"}, "spec.name: Too long: may not be more than 5"),
        ({"name": "A1"}, "spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'"),
        ({"when": "yesterday"}, 'spec.when: Invalid value: "yesterday": spec.when in body must be of type date-time'),
        ({"parts": [{}]}, "spec.parts[0].id: Required value"),
        ({"parts": [{"id": "a"}] * 3}, "spec.parts: Too many: must have at most 2 items"),
        ({"groups": {}}, "spec.groups: Invalid value: {}: spec.groups in body should have at least 1 properties"),
        ({"groups": {"g": {"count": "x"}}}, 'spec.groups.g.count: Invalid value: "string"'),
        ({"port": []}, 'spec.port: Invalid value: "array": spec.port in body must be of type integer,string: "array"'),
        ({"open": []}, 'spec.open: Invalid value: "array": spec.open in body must be of type object: "array"'),
    ],
)
def test_what_the_schema_forbids_is_said_in_the_words_of_kube_apiserver(spec: dict[str, Any], message: str) -> None:
    (problem,) = problems(**spec)
    assert problem.startswith(message)


def test_what_the_schema_allows_passes_a_missing_section_is_named_and_one_can_be_checked_alone() -> None:
    assert problems(port=1, maybe=None, when="2026-01-01T00:00:00Z", groups={"g": {}}) == problems(port="http") == []
    assert [str(problem) for problem in WIDGET.validate({})] == ["spec: Required value"]
    status = WIDGET.only("status")
    assert status.validate({"spec": "broken"}) == []
    assert [problem.field for problem in status.validate({"status": {"ready": "x"}})] == ["status.ready"]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "integer"}, 1.0, []),
        ({"type": "integer"}, 1.5, ['"number": x in body must be of type integer: "1.5"']),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, 1, ["1: x in body should be greater than 1"]),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": True}, 1, ["1: x in body should be less than 1"]),
        ({"type": "integer", "multipleOf": 2}, 3, ["3: x in body should be a multiple of 2"]),
        ({"type": "string", "enum": ["a"], "nullable": True}, None, []),
        ({"type": "string"}, None, ['"null": x in body must be of type string: "null"']),
        ({"type": "array", "minItems": 1}, [], ["[]: x in body should have at least 1 items"]),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "1", []),
        (
            {"allOf": [{"minLength": 2}, {"pattern": "b"}]},
            "a",
            ['"a": x in body should be at least 2 chars long', "\"a\": x in body should match 'b'"],
        ),
        (
            {"anyOf": [{"minimum": 2}, {"minimum": 3}]},
            1,
            ['"integer": x in body must validate at least one schema (anyOf)'],
        ),
        (
            {"oneOf": [{"minimum": 2}, {"minimum": 3}]},
            3,
            ['"integer": x in body must validate one and only one schema (oneOf)'],
        ),
        ({"oneOf": [{"minimum": 2}, {"minimum": 3}]}, 2, []),
        ({"not": {"required": ["a"]}}, {"a": 1}, ['"object": x in body must not validate the schema (not)']),
    ],
)
def test_each_keyword_of_a_structural_schema_is_checked(
    schema: dict[str, Any], value: object, expected: list[str]
) -> None:
    whole = StructuralSchema({"type": "object", "properties": {"x": schema}})
    assert [str(problem) for problem in whole.validate({"x": value})] == [f"x: Invalid value: {e}" for e in expected]


def test_true_is_no_number_in_an_enumeration_and_a_map_may_have_too_many_members() -> None:
    schema = {"type": "object", "properties": {"x": {"enum": [1]}}, "maxProperties": 1}
    messages = [str(problem) for problem in StructuralSchema(schema).validate({"x": True, "y": 2})]
    assert messages == [": Too many: must have at most 1 properties", "x: Unsupported value: true: supported values: 1"]
