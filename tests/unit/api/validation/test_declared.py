"""From a declaration follow the schema and the messages, and decoding takes no notice of it."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from tfoperator.api.fields.field import Field
from tfoperator.api.fields.limits import INT32_MAX, Pattern
from tfoperator.api.fields.problems import Problem
from tfoperator.api.schema.structs import Table, struct_schema
from tfoperator.api.validation.declared import field_problems


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part."""

    count: Annotated[int | None, Field("Its number.", ge=1)] = None


class Whole(msgspec.Struct, frozen=True, rename="camel"):
    """A whole."""

    most_of_it: Annotated[int | None, Field("Much.", le=7)] = None
    colour: Annotated[str | None, Field("A colour.", choices=Colour)] = None
    owner: Annotated[str | None, Field("Its owner.", one_of=("a", "b"))] = None
    name: Annotated[str, Field("A name.", required=True, hint="any name", max_length=3)] = "n"
    amounts: Annotated[
        dict[str, str | int] | None, Field("Amounts.", pattern=Pattern("^[0-9]+$", "must be a number, but is {}"))
    ] = None
    items: Annotated[tuple[str, ...], Field("Items.", max_items=1)] = ()
    part: Annotated[Part | None, Field("A part.")] = None


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"mostOfIt": 8}, "x.mostOfIt: must be 7 or less, but is 8"),
        ({"mostOfIt": -(2**40)}, f"x.mostOfIt: must be -2147483648 or more, but is {-(2**40)}"),
        ({"colour": "Green"}, 'x.colour: must be one of Red, Blue, but is "Green"'),
        ({"owner": ""}, 'x.owner: must be a or b, but is ""'),
        ({"name": ""}, "x.name: is required: any name"),
        ({"name": "long"}, "x.name: must have at most 3 characters"),
        ({"amounts": {"good": 3, "bad": "b"}}, 'x.amounts[bad]: must be a number, but is "b"'),
        ({"items": ["a", "b"]}, "x.items: must have at most 1 items"),
        ({"part": {"count": 0}}, "x.part.count: must be 1 or more, but is 0"),
        ({"part": {"count": 2**31}}, f"x.part.count: must be {INT32_MAX} or less, but is {2**31}"),
    ],
)
def test_a_value_that_breaks_its_declaration_is_decoded_and_named(value: dict[str, Any], complaint: str) -> None:
    whole = msgspec.json.decode(msgspec.json.encode(value), type=Whole)
    assert [str(problem) for problem in field_problems("x", whole)] == [complaint]


def test_what_keeps_to_its_declaration_or_is_unset_is_good_and_rules_come_after_their_field() -> None:
    assert (
        field_problems("x", Whole()) == field_problems("x", Whole(7, "", "a", "abc", {"a": "1"}, ("a",), Part(1))) == []
    )
    rules = {"owner": [Problem("x.owner", "rule")]}
    problems = field_problems("x", Whole(8, owner="c", name=""), rules)
    assert [problem.message.partition(" ")[0] for problem in problems] == ["must", "must", "rule", "is"]


def test_the_schema_has_the_same_bounds() -> None:
    schema = struct_schema(Whole, Table())
    properties = schema["properties"]
    assert schema["required"] == ["name"]
    assert (properties["mostOfIt"]["maximum"], properties["mostOfIt"].get("minimum")) == (7, None)
    assert properties["colour"]["enum"] == ["", "Red", "Blue"]
    assert properties["owner"]["x-kubernetes-validations"][0]["rule"] == "self in ['a', 'b']"
    assert properties["name"] == {"type": "string", "maxLength": 3, "description": "A name."}
    assert properties["amounts"]["additionalProperties"]["pattern"] == "^[0-9]+$"
    assert properties["items"]["maxItems"] == 1
    part = {"type": "integer", "format": "int32", "minimum": 1, "maximum": INT32_MAX, "description": "Its number."}
    assert properties["part"]["properties"]["count"] == part
