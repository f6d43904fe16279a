"""Spoils jobs: changes one thing in a manifest, or some bytes of its text."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from hack.random_jobs.chances import chance

_DEPTH = 30
_STRINGS = ("", "0", "-1", "x", "Worker", "worker", "None", "null", "a" * 300, "Ünïcode", "a/b", "\x00", "1e9", "{{}}")
_NUMBERS = (0, 1, -1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, -0.0)


def mutated(rng: random.Random, manifest: Any) -> Any:
    """The same with one thing changed, somewhere (in place where it can be)."""
    places = list(_places(manifest))
    if not places:
        return _junk(rng)
    parent, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del parent[key]
        case 1:
            parent[key] = None
        case 2 if isinstance(parent, dict):
            renamed = rng.choice((key.upper(), key.lower(), key[:-1], f"{key}s", "", rng.choice(_STRINGS)))
            parent[renamed] = parent[key] if chance(rng, 0.5) else parent.pop(key)
        case 3:
            other, place = rng.choice(places)
            parent[key] = json.loads(json.dumps(other[place]))
        case 4 if chance(rng, 0.05):
            depth = rng.choice((10, 100))
            parent[key] = json.loads("[" * depth + "{}" + "]" * depth)
        case _:
            parent[key] = _junk(rng)
    return manifest


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    # No deeper: each mutation adds levels, and beyond a thousand Python's own json gives up.
    if depth == _DEPTH:
        return
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(child, depth + 1)


def _junk(rng: random.Random) -> Any:
    kind = rng.randrange(7)
    if kind < 4:
        return rng.choice((_STRINGS, _NUMBERS, (True, False, None), ([], {}, [None], {"": None}))[kind])
    if kind == 4:
        return "".join(chr(rng.randrange(0xD800)) for _ in range(rng.randrange(6)))
    inner = [_junk(rng) for _ in range(rng.choice((0, 1, 2)))]
    return inner if kind == 5 else {rng.choice(_STRINGS): item for item in inner}


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The same bytes with a few of them changed, added or left out."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3))):
        position = rng.randrange(len(changed))
        match rng.randrange(3):
            case 0:
                changed[position] = rng.randrange(256)
            case 1:
                changed[position:position] = bytes(rng.choice(b'{}[]",:0 -e') for _ in range(2))
            case _:
                del changed[position : position + rng.choice((1, 1, 50))]
        if not changed:
            break
    return bytes(changed)
