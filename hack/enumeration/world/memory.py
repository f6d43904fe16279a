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
    visited = {id(excluded) for excluded in without}
    places: list[str] = []
    left: deque[tuple[str, object]] = deque(roots.items())
    while left:
        path, obj = left.popleft()
        if isinstance(obj, str):
            if text in obj:
                places.append(path)
        elif not isinstance(obj, _PLAIN) and id(obj) not in visited:
            visited.add(id(obj))
            left.extend((f"{path}{step}", member) for step, member in _members(obj))
    return places


def _members(obj: object) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, MethodType):
        yield "()", obj.__self__
    elif isinstance(obj, Mapping):
        for key, value in list(obj.items()):
            yield f"[{key!r:.40}] (key)", key
            yield f"[{key!r:.40}]", value
    elif isinstance(obj, list | tuple | set | frozenset | deque):
        for number, item in enumerate(tuple(obj)):
            yield f"[{number}]", item
    yield from ((f".{name}", value) for name, value in _fields(obj))


def _fields(obj: object) -> Iterable[tuple[str, Any]]:
    if isinstance(obj, msgspec.Struct):
        return [(name, getattr(obj, name)) for name in obj.__struct_fields__]
    return list(getattr(obj, "__dict__", {}).items())
