"""The declaration of a field of a TFJob: meaning, bounds, allowed values, and the release that added the field.

    backoff_limit: Annotated[int | None, Field("Number of restarts ...", ge=0)] = None

Decoding ignores the declaration. The operator must be able to read a job that breaks a bound, because the job may be
older than the bound, and the job's status has to name the problem. Three things are made from the declaration: the CRD
(`tfoperator.api.schema`), which `kubectl explain` reads, the messages of `tfoperator.api.validation`, and
docs/fields.md.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from tfoperator.api.fields.limits import Pattern

FIRST_RELEASE = "0.1.0"

GO_OPERATOR = "v1"
"""The value of `since` for a field that `kubeflow.org/v1` also has in the Go operator."""


class Field(msgspec.Struct, frozen=True):
    """The declaration of one field; its type and its default are not in the declaration.

    - `description`: the meaning, in sentences.
    - `ge` and `le`: the bounds of a whole number. If one of them is not given, the bound of an int32 applies.
    - `choices`: the allowed values of a text. An empty text means that the field is unset, as in the Go operator.
    - `one_of`: the allowed values of a text, without the empty text.
    - `pattern`: the form of a text. For a map, it is the form of each value.
    - `max_length`: the maximum length of a text. `max_items`: the maximum number of items of a list.
    - `required`: whether a job without the field is refused. `hint` is added to the message about the missing field.
    - `default`: the value that an API server fills in.
    - `int64`: whether a number, or each number of a map, may need more than 32 bits.
    - `unchangeable`: whether users can't change the value after it is set.
    - `since`: the release that added the field.
    - `kubernetes`: the name of the type in Kubernetes, such as `[]EnvVar`, if the value is copied into a pod unchanged.
    - `brief`: whether the CRD describes only the direct members of a Kubernetes value, and not their members.
    - `open`: whether the CRD has only those members of a Kubernetes value that this code reads, and keeps all other
      members unchecked. `tfoperator validate` checks all of them.
    - `schema`: further members of the field's schema, which only API servers check.
    """

    description: str
    ge: int | None = None
    le: int | None = None
    choices: type[StrEnum] | None = None
    one_of: tuple[str, ...] = ()
    pattern: Pattern | None = None
    max_length: int | None = None
    max_items: int | None = None
    required: bool = False
    hint: str = ""
    default: object = None
    int64: bool = False
    unchangeable: bool = False
    since: str = FIRST_RELEASE
    kubernetes: str = ""
    brief: bool = False
    open: bool = False
    schema: Mapping[str, Any] = {}


def named_items(of: str, max_length: int, **texts: str) -> Mapping[str, Any]:
    """Return the schema of a list of items with names, for example of volumes.

    `of` is the word for an item in the description of its name. `max_length` is the maximum length of the name. `texts`
    maps the other required members of an item, which are strings, to their meaning.
    """
    name = {"type": "string", "minLength": 1, "maxLength": max_length, "description": f"Name of the {of}."}
    others = {text: {"type": "string", "minLength": 1, "description": meaning} for text, meaning in texts.items()}
    return {"items": {"required": [*others, "name"], "properties": {**others, "name": name}}}


class NotDeclared(Exception):
    """Raised for a field of a struct without a declaration: the message names the file and the line to write."""

    def __init__(self, struct: type, attribute: str) -> None:
        file = struct.__module__.replace(".", "/") + ".py"
        super().__init__(
            f"{struct.__name__}.{attribute} has no declaration: in {file}, give it the type "
            f'Annotated[..., Field("Its meaning.")] with a Field of tfoperator/api/fields/field.py'
        )


class Declared(typing.NamedTuple):
    """A field of a struct: the name of its Python attribute, and its declaration.

    `demanding` is true if the declaration limits the value, for example by `ge` or `required`.
    """

    attribute: str
    field: Field
    demanding: bool


@cache
def declared(struct: type[msgspec.Struct]) -> Mapping[str, Declared]:
    """Return the fields of a struct by their names in JSON, in the order of the struct.

    Raises NotDeclared if a field has no declaration.
    """
    hints = typing.get_type_hints(struct, include_extras=True)
    fields = {}
    for member in msgspec.structs.fields(struct):
        notes = (
            typing.get_args(hints[member.name])[1:] if typing.get_origin(hints[member.name]) is typing.Annotated else ()
        )
        declarations = [note for note in notes if isinstance(note, Field)]
        if not declarations:
            raise NotDeclared(struct, member.name)
        fields[member.encode_name] = Declared(member.name, declarations[0], _is_demanding(declarations[0]))
    return fields


def _is_demanding(field: Field) -> bool:
    bounds = (field.ge, field.le, field.max_length, field.max_items, field.choices, field.pattern)
    return bool(field.required or field.one_of) or any(bound is not None for bound in bounds)


def written_by_others(struct: type) -> Mapping[str, Field]:
    """Return the fields that only other operators write: API servers store them, and this code never reads them."""
    return getattr(struct, "WRITTEN_BY_OTHERS", {})
