"""Finds what an object remembers: every place below it, however deep and however private, that has a text."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import msgspec

_PLAIN = (bytes, int, float, bool, type(None), type, FunctionType, ModuleType, type(threading.Lock()))


def places_of(text: str, roots: Mapping[str, object], *, without: Collection[object]) -> list[str]:
    """Return the places of all strings that contain `text`, as paths of members that begin with the name of a root.

    Objects are followed through their members, containers through their items, each object once. The objects `without`
    are not entered.
    """
    seen = {id(one) for one in without}
    found: list[str] = []
    left: deque[tuple[str, object]] = deque(roots.items())
    while left:
        path, one = left.popleft()
        if isinstance(one, str):
            if text in one:
                found.append(path)
        elif not isinstance(one, _PLAIN) and id(one) not in seen:
            seen.add(id(one))
            left.extend((f"{path}{step}", member) for step, member in _members(one))
    return found


def _members(one: object) -> Iterator[tuple[str, Any]]:
    if isinstance(one, MethodType):
        yield "()", one.__self__
    elif isinstance(one, Mapping):
        for key, value in list(one.items()):
            yield f"[{key!r:.40}] (key)", key
            yield f"[{key!r:.40}]", value
    elif isinstance(one, list | tuple | set | frozenset | deque):
        for number, item in enumerate(tuple(one)):
            yield f"[{number}]", item
    yield from ((f".{name}", value) for name, value in _fields(one))


def _fields(one: object) -> Iterable[tuple[str, Any]]:
    if isinstance(one, msgspec.Struct):
        return [(name, getattr(one, name)) for name in one.__struct_fields__]
    return list(getattr(one, "__dict__", {}).items())
