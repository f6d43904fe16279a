"""The journal of a simulated world: every version of every object, noted as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hack.enumeration.world.server import SimulatedServer
from hack.faults.journal import Entry
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource
from tfoperator.local.apiserver.storage.store import StoreChange

Json = dict[str, Any]


class DirectRecorder:
    """Stands in for `hack.faults.journal.JournalRecorder` where no watch is needed. For one thread."""

    def __init__(self, server: SimulatedServer, more: Mapping[str, Resource]) -> None:
        """`more` are kinds that are recorded besides jobs, pods and services."""
        self._entries: list[Entry] = []
        self._current: dict[str, dict[str, Json]] = {kind: {} for kind in ("TFJob", "Pod", "Service", *more)}
        for resource in (TFJOBS, PODS, SERVICES, *more.values()):
            server.store.observe(self._observe, server.type_of(resource))

    def current(self, kind: str) -> list[Json]:
        """Return the objects that exist, sorted by name; empty for a kind that is not recorded."""
        return sorted(self._current.get(kind, {}).values(), key=lambda obj: str(obj["metadata"]["name"]))

    def entries(self) -> list[Entry]:
        """All events so far, in their order."""
        return self._entries

    def gaps(self) -> list[tuple[int, int]]:
        """Return an empty list: this journal never misses anything."""
        return []

    def add(self, obj: Json, kind: str) -> None:
        """Do nothing: each answer of the server was stored before, and so was recorded."""

    def _observe(self, change: StoreChange) -> None:
        obj = change.last.obj
        kind, uid = str(obj["kind"]), str(obj["metadata"]["uid"])
        event_type = "DELETED" if change.new is None else "ADDED" if change.old is None else "MODIFIED"
        self._entries.append(Entry(change.revision, kind, event_type, obj))
        if change.new is None:
            self._current[kind].pop(uid, None)
        else:
            self._current[kind][uid] = obj
