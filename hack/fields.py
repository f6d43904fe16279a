"""The table of every field of a TFJob in docs/fields.md, from the declarations, the CRD and the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from tfoperator.api.defaults import default
from tfoperator.api.fields.field import FIRST_RELEASE, GO_OPERATOR, declared, written_by_others
from tfoperator.api.fields.structure import members
from tfoperator.api.schema.crd import openapi_schema
from tfoperator.api.schema.structs import Schema, type_words
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJobSpec, decode_tfjob

_HEAD = """\
<!-- Made by hack/generate.py from tfoperator/api; change the types or tfoperator/api/schema/fields.py instead. -->
# Every field of a TFJob

`kubeflow.org/v1`. `[*]` stands for a replica type (PS, Worker, Chief, Master, Evaluator) or for each item of a list.
*Since* says `v1` for what the Go operator has, too, else the release of tfoperator that brought the field;
[tfjob.md](tfjob.md) explains those of `spec`. A dash means that nothing is assumed where the field is absent.
`metadata` is every object's. A `template` is a PodTemplateSpec of Kubernetes: its fields are in
`kubectl explain tfjob.spec.tfReplicaSpecs.template`.
"""


class FieldRow(NamedTuple):
    """One line of the table."""

    path: str
    type: str
    default: str
    since: str
    description: str


def field_rows() -> Iterator[FieldRow]:
    """Every field below `spec` and `status`, in the CRD's order, a parent before its members."""
    # Kubernetes' own fields are not listed: with open templates the schema has none.
    schemas = openapi_schema(open_templates=True)["properties"]
    filled = _defaults()
    for name, struct in (("spec", TFJobSpec), ("status", TFJobStatus)):
        yield from _rows(schemas[name], name, filled, dict(_ages(struct, name, GO_OPERATOR)))


def fields_markdown() -> str:
    """The text of docs/fields.md, the same at each call."""
    rows = list(field_rows())
    tables = []
    for name in ("spec", "status"):
        lines = [f"## {name}", "", "| Field | Type | Default | Since | Meaning |", "|---|---|---|---|---|"]
        lines += [_line(row) for row in rows if row.path.startswith(f"{name}.")]
        tables.append("\n".join(lines) + "\n")
    return "\n".join([_HEAD, *tables])


def _ages(struct: type[msgspec.Struct], path: str, above: str) -> Iterator[tuple[str, str]]:
    """Yield since when each field exists, by path: as a part of a newer field it is no older than that."""
    types = members(struct)
    for name, declaration in declared(struct).items():
        below, age = f"{path}.{name}", max(above, declaration.field.since, key=_release)
        yield below, age
        for part, place in _structs(types[name].type, below):
            yield from _ages(part, place, age)
    for name, field in written_by_others(struct).items():
        yield f"{path}.{name}", max(above, field.since, key=_release)


def _release(age: str) -> list[int]:
    return [] if age == GO_OPERATOR else [int(number) for number in age.split(".")]


def _structs(info: inspect.Type, path: str) -> Iterator[tuple[type[msgspec.Struct], str]]:
    """Yield the structs that a value of the type has, and their paths."""
    match info:
        case inspect.UnionType():
            for option in info.types:
                yield from _structs(option, path)
        case inspect.StructType():
            yield info.cls, path
        case inspect.DictType():
            yield from _structs(info.value_type, f"{path}[*]")
        case inspect.VarTupleType():
            yield from _structs(info.item_type, f"{path}[*]")


def _rows(schema: Schema, path: str, filled: Mapping[str, Any], ages: Mapping[str, str]) -> Iterator[FieldRow]:
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        below = f"{path}.{name}"
        since = ages.get(below, FIRST_RELEASE)  # A member of Kubernetes' own types is as old as this API.
        yield FieldRow(
            below, type_words(child), _default(child, below, name in required, filled), since, child["description"]
        )
        if child.get("x-kubernetes-preserve-unknown-fields"):
            continue  # Kubernetes' own, of which the CRD names only a part.
        yield from _rows(child, below, filled, ages)
        for key in ("items", "additionalProperties"):
            if isinstance(child.get(key), dict):
                yield from _rows(child[key], f"{below}[*]", filled, ages)


def _default(schema: Schema, path: str, required: bool, filled: Mapping[str, Any]) -> str:
    if required:
        return "required"
    value = schema.get("default", filled.get(path))
    return "–" if value is None or isinstance(value, dict) else f"`{msgspec.json.encode(value).decode()}`"


def _defaults() -> dict[str, Any]:
    """Return the operator's default values of absent fields, by path: more than the CRD's, which may be older."""
    job = default(decode_tfjob(b'{"spec": {"tfReplicaSpecs": {"Worker": {}}}}'))
    return dict(_leaves(msgspec.json.decode(msgspec.json.encode(job.spec)), "spec"))


def _leaves(value: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, child in value.items():
        below = f"{path}[*]" if path == "spec.tfReplicaSpecs" else f"{path}.{name}"
        if isinstance(child, dict):
            yield from _leaves(child, below)
        else:
            yield below, child


def _line(row: FieldRow) -> str:
    meaning = row.description.replace("|", "\\|")
    return f"| `{row.path}` | {row.type} | {row.default} | {row.since} | {meaning} |"
