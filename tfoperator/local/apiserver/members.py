"""Reads and changes members of plain JSON objects, and parses numbers and flags as API servers do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]
"""A JSON object, or a part of an object."""

_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)


def member_at(value: Any, path: Iterable[str]) -> Any:
    """Return the value at a path of member names. Return None if there is none."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def content_of(obj: dict[str, Any]) -> dict[str, Any]:
    """Return all members except metadata and status.

    The user sets these members, and each change of them increases the generation.
    """
    return {field: value for field, value in obj.items() if field not in ("metadata", "status")}


def keep(new: dict[str, Any], old: dict[str, Any], name: str) -> None:
    """Set the member `name` of `new` to its value in `old`. If `old` lacks the member, remove it from `new`."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def put_list(obj: dict[str, Any], name: str, items: list[Any]) -> None:
    """Set a member to a list. If the list is empty, remove the member, as Go's JSON encoder does (`omitempty`)."""
    keep(obj, {name: items} if items else {}, name)


def parse_int64(text: str) -> int:
    """Parse a text as a 64-bit integer, as API servers do. Raises ValueError if the text is not such an integer."""
    if not _INTEGER.fullmatch(text) or not is_int64(number := int(text)):
        raise ValueError("not a number of 64 bits")
    return number


def query_flag(query: Mapping[str, str], name: str) -> bool:
    """Return a boolean from a query, parsed as API servers do.

    An absent value, "0" and "false" (upper or lower case) are False. All other values are True, including Python's
    "True" and an empty value.
    """
    return name in query and query[name].lower() not in ("0", "false")


def is_int64(number: int) -> bool:
    """Return whether an integer fits in 64 bits."""
    return -(2**63) <= number < 2**63


def has_only_int64(value: Any) -> bool:
    """Return whether all integers of a JSON value, at any depth, fit in 64 bits."""
    if isinstance(value, dict):
        return all(map(has_only_int64, value.values()))
    if isinstance(value, list):
        return all(map(has_only_int64, value))
    return not isinstance(value, int) or is_int64(value)
