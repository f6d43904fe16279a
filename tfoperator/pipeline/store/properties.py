"""Converts values of properties to the form of ML Metadata: a row for each property, with a column for each type.

A list, an integer of more than 32 bits, NaN, or a text with NUL fits into no such column of SQLite or PostgreSQL. Such
a value is stored as JSON in the column `string_value`, and the column `byte_value` contains `json` to mark it. ML
Metadata does not read `byte_value`.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, insert, select

from tfoperator.pipeline.store.database import named, storable, upsert
from tfoperator.pipeline.store.tables import BOOLEAN, DOUBLE, INT, STRING, artifact_properties, type_properties

_JSON = b"json"
_COLUMNS = {INT: "int_value", DOUBLE: "double_value", STRING: "string_value", BOOLEAN: "bool_value"}

Kinds = dict[str, int]
"""The data types (such as `INT`) of the properties that a type of artifacts, executions or contexts has, by name."""


def put_properties(db: Connection, table: Table, owner: int, type_id: int, values: Mapping[str, Any]) -> None:
    """Replace all properties of an artifact, execution or context in `table`.

    `owner` is the id of the artifact, execution or context, and `type_id` is the id of its type.
    """
    owners = table.c[0]
    db.execute(delete(table).where(owners == owner))
    if not values:
        return
    query = select(type_properties.c.name, type_properties.c.data_type).where(type_properties.c.type_id == type_id)
    kinds: Kinds = {row.name: row.data_type for row in db.execute(query)}
    before = set(kinds)
    rows = [{owners.name: owner, **row} for row in property_rows(values, kinds)]
    if unknown := kinds.keys() - before:
        kinds_now = [{"type_id": type_id, "name": name, "data_type": kinds[name]} for name in sorted(unknown)]
        db.execute(upsert(db, type_properties).on_conflict_do_nothing(), kinds_now)
    db.execute(insert(table), rows)


def property_rows(values: Mapping[str, Any], kinds: Kinds) -> Iterator[dict[str, Any]]:
    """Yield the columns of each property, without the column of its owner.

    `kinds` has the properties of the owner's type. An unknown property is added to `kinds`. If a value has another data
    type than in `kinds`, its row becomes a custom property.
    """
    for name, value in values.items():
        kind, columns = _columns(value)
        custom = kinds.setdefault(named(name), kind) != kind
        empty: dict[str, Any] = dict.fromkeys((*_COLUMNS.values(), "byte_value"))
        yield {"name": name, "is_custom_property": custom, **empty, **columns}


def properties_of(db: Connection, table: Table, owners: Select[Any]) -> Mapping[int, dict[str, Any]]:
    """Return the properties of the artifacts, executions or contexts whose ids the query `owners` finds.

    The result has, by this id, the values of the properties by name.
    """
    properties: dict[int, dict[str, Any]] = defaultdict(dict)
    column = table.c[0]
    for row in db.execute(select(table, column.label("owner")).where(column.in_(owners)).order_by(table.c.name)):
        properties[row.owner][row.name] = _value(row)
    return properties


def has_value(value: Any) -> ColumnElement[bool]:
    """Return an SQL condition: a row of an artifact's property has this value.

    `value` is a text, a bool or a finite number. The number 1 equals 1 and 1.0.
    """
    columns = artifact_properties.c
    if isinstance(value, bool):
        return columns.bool_value == value
    if isinstance(value, str):
        return columns.string_value == value
    equal = columns.double_value == float(value)
    whole = float(value).is_integer() and -(2**31) <= value < 2**31
    return equal | (columns.int_value == int(value)) if whole else equal


def _columns(value: Any) -> tuple[int, dict[str, Any]]:
    """Return the data type of a property's value, and the columns in which the property's row stores the value."""
    if isinstance(value, bool):
        return BOOLEAN, {"bool_value": value}
    if isinstance(value, int) and -(2**31) <= value < 2**31:
        return INT, {"int_value": value}
    if isinstance(value, float) and math.isfinite(value):
        return DOUBLE, {"double_value": value}
    if isinstance(value, str) and storable(value):
        return STRING, {"string_value": value}
    return STRING, {"string_value": json.dumps(value, default=str), "byte_value": _JSON}


def _value(row: Row[Any]) -> Any:
    if row.byte_value is not None:
        return json.loads(row.string_value)
    return next((value for name in _COLUMNS.values() if (value := getattr(row, name)) is not None), None)
