"""Reading and changing members of plain JSON objects, and numbers as API servers hold them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)


def member_at(value: Any, path: Iterable[str]) -> Any:
    """What a path of member names leads to; None where it leads nowhere."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def content_of(obj: dict[str, Any]) -> dict[str, Any]:
    """All members but metadata and status: what a user asks for, and what the generation counts changes of."""
    return {field: value for field, value in obj.items() if field not in ("metadata", "status")}


def keep(new: dict[str, Any], old: dict[str, Any], name: str) -> None:
    """Make a member what it is in the old version, absent if it is absent there."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def put_list(obj: dict[str, Any], name: str, items: list[Any]) -> None:
    """Set a member to a list; an empty one is left out, as in Go."""
    keep(obj, {name: items} if items else {}, name)


def parse_int64(text: str) -> int:
    """A whole number of 64 bits, which is what API servers take. Raises ValueError for anything else."""
    if not _INTEGER.fullmatch(text) or not is_int64(number := int(text)):
        raise ValueError("not a number of 64 bits")
    return number


def query_flag(query: Mapping[str, str], name: str) -> bool:
    """A yes or no of a query, read as API servers do: absent, "0" and "false" (in any case) say no, all else says yes.

    So does Python's "True", and so does an empty value.
    """
    return name in query and query[name].lower() not in ("0", "false")


def is_int64(number: int) -> bool:
    """Whether a whole number has room in 64 bits."""
    return -(2**63) <= number < 2**63


def has_only_int64(value: Any) -> bool:
    """Whether all whole numbers of a JSON value, at any depth, have room in 64 bits."""
    if isinstance(value, dict):
        return all(map(has_only_int64, value.values()))
    if isinstance(value, list):
        return all(map(has_only_int64, value))
    return not isinstance(value, int) or is_int64(value)
