"""The journal of a play as lines that are the same each time, and their hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from hack.enumeration.world.world import World

Json = Mapping[str, Any]

_encode = msgspec.json.Encoder(order="deterministic").encode


def journal(world: World) -> Iterator[str]:
    """Yield what happened in a world: each version of each object by what changed, then events and looks at jobs."""
    before: dict[str, dict[str, str]] = {}
    for entry in world.recorder.entries():
        now = dict(_values(entry.obj, ""))
        then = before.get(entry.uid, {})
        before[entry.uid] = now
        changed = [f"{path}={now[path]}" for path in sorted(now) if now[path] != then.get(path)]
        gone = [f"{path} is gone" for path in sorted(then.keys() - now.keys())]
        yield " ".join([entry.what, entry.kind, entry.name, *changed, *gone])
    for number, process in enumerate(world.processes, 1):
        yield from (
            f"process {number}: {event.type} {event.reason} {event.name} {event.message}"
            for event in process.events.sent
        )
        yield from (f"process {number}: sync of {key} at {seconds:.1f} s" for key, seconds in process.syncs)


def digest(lines: Iterable[str]) -> str:
    """Return a short hash of lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _values(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield each value in an object with its path; lists of plain values are values. Versions are only an order."""
    if isinstance(value, dict) and value:
        for name, member in value.items():
            if name not in ("managedFields", "resourceVersion"):
                yield from _values(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for at, item in enumerate(value):
            yield from _values(item, f"{path}[{at}]")
    else:
        yield path, _encode(value).decode()
