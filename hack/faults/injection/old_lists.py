"""Lists that were answered before, which the proxy can answer again as an API server would that is behind."""

from __future__ import annotations

import json

from aiohttp import web

_COUNT = 8
"""How many are kept of each selection."""


class OldLists:
    """For one thread."""

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[int, bytes]]] = {}

    def add(self, incoming: web.Request, data: bytes) -> None:
        """Keep the answer to a LIST."""
        if "continue" in incoming.query:
            return
        version = _version_of(data)
        if version is not None:
            kept = self._kept.setdefault(_selection(incoming), [])
            kept.append((version, data))
            del kept[:-_COUNT]

    def find(self, incoming: web.Request) -> bytes | None:
        """The oldest list that a lagging API server may answer with; a list without a version must be the newest."""
        requested = incoming.query.get("resourceVersion", "")
        if (
            not requested.isdigit()
            or "continue" in incoming.query
            or incoming.query.get("resourceVersionMatch") == "Exact"
        ):
            return None
        for version, data in self._kept.get(_selection(incoming), ()):
            if version >= int(requested):
                return data
        return None


def _selection(incoming: web.Request) -> str:
    accept = incoming.headers.get("Accept", "")
    return f"{incoming.path}?{incoming.query.get('labelSelector', '')}#{accept}"


def _version_of(data: bytes) -> int | None:
    try:
        version = json.loads(data)["metadata"]["resourceVersion"]
    except (ValueError, KeyError, TypeError):
        return None
    return int(version) if str(version).isdigit() else None
