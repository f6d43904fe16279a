"""Records every version of every job, pod and service of a namespace, in the order in which the API server made them.

Where a plan has TensorBoards or gangs, of every Deployment or PodGroup, too; other plans don't pay for those watches.
The order is the order of resourceVersions, which both API servers count across all resources. The recorder has its own
watches, at the server and not at the proxy: injected faults do not change what it records.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import WatchOptions
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import WatchEventType

Json = dict[str, Any]

_RESOURCES: dict[str, Resource] = {"TFJob": TFJOBS, "Pod": PODS, "Service": SERVICES}
_FOR_EVER = 1 << 63
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Entry(msgspec.Struct, frozen=True):
    """One event: `what` is ADDED, MODIFIED or DELETED; a deleted object is shown as it was last."""

    version: int
    kind: str
    what: str
    obj: Json

    @property
    def uid(self) -> str:
        """The object's."""
        return str(self.obj["metadata"]["uid"])

    @property
    def name(self) -> str:
        """The object's."""
        return str(self.obj["metadata"]["name"])


class Journal(msgspec.Struct):
    """The events of a play, and (by UID) the objects that the plan, and not the operator, has changed.

    `deleted_by_plan` are objects that the plan deleted, `jobs_deleted_by_plan` jobs; `foreign_objects` are the plan's
    own objects, which others must not touch. From objects in `orphaned` the plan removed the owner reference. `doubles`
    are second objects of a replica, which the plan made. `gang` is the gang scheduler, "" if there is none. `prompt`:
    the operator saw each change as it was made. Without `texts` conditions are shown in short, by type and status. With
    `clock_stepped` times prove nothing; `now` is the time of clocks that were not stepped. In `gaps` (after one
    version, up to another) a watch was away and something may be missing.
    """

    entries: list[Entry] = []
    deleted_by_plan: set[str] = set()
    jobs_deleted_by_plan: set[str] = set()
    foreign_objects: set[str] = set()
    orphaned: set[str] = set()
    doubles: set[str] = set()
    gang: str = ""
    prompt: bool = False
    texts: bool = True
    clock_stepped: bool = False
    now: datetime | None = None
    gaps: list[tuple[int, int]] = []

    def is_whole_at(self, version: int) -> bool:
        """Whether nothing is missing around this version."""
        return not any(after < version <= until for after, until in self.gaps)


class Recorder(Protocol):
    """The part of the journal that simulations use while it is written."""

    def current(self, kind: str) -> list[Json]:
        """Return the objects that exist, sorted by name; empty for a kind that is not recorded."""
        ...

    def entries(self) -> list[Entry]:
        """All events so far, in their order."""
        ...

    def gaps(self) -> list[tuple[int, int]]:
        """Where something may be missing."""
        ...

    def add(self, obj: Json, kind: str) -> None:
        """Add the answer of a write."""
        ...


class JournalRecorder:
    """Records the journal of a namespace, and the current state of its objects. Thread-safe."""

    def __init__(self, client: Client, namespace: str, more: Mapping[str, Resource] | None = None) -> None:
        """`more` are kinds that are recorded besides jobs, pods and services."""
        self._client = client
        self._namespace = namespace
        self._resources = {**_RESOURCES, **(more or {})}
        self._lock = threading.Condition()  # guards _current, _unseen, _entries, _gaps, _seen and _away
        self._current: dict[str, dict[str, Json]] = {kind: {} for kind in self._resources}
        self._unseen: dict[str, dict[str, Json]] = {kind: {} for kind in self._resources}  # added, not yet watched
        self._entries: list[Entry] = []
        self._gaps: list[tuple[int, int]] = []
        self._seen: dict[str, int] = {}
        self._away: set[str] = set()
        self._stop = threading.Event()
        self._watches: dict[str, Any] = {}
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), name=f"journal-{kind}", daemon=True)
            for kind in self._resources
        ]

    def __enter__(self) -> JournalRecorder:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for watch in list(self._watches.values()):
            watch.close()
        for thread in self._threads:
            thread.join(10)

    def current(self, kind: str) -> list[Json]:
        """Return the objects that exist, sorted by name; empty for a kind that is not recorded."""
        with self._lock:
            objects = list(self._current.get(kind, {}).values())
        return sorted(objects, key=lambda obj: str(obj["metadata"]["name"]))

    def entries(self) -> list[Entry]:
        """All events so far, in the order of their versions, each once."""
        with self._lock:
            # A write and its watch event are the same event; the watch adds how it ended (ADDED, DELETED).
            unique = {
                (e.version, e.uid): e for e in sorted(self._entries, key=lambda e: e.what == "MODIFIED", reverse=True)
            }
        return sorted(unique.values(), key=lambda entry: entry.version)

    def gaps(self) -> list[tuple[int, int]]:
        """Where something may be missing. The gap of a watch that is still away has no end yet."""
        with self._lock:
            return [*self._gaps, *((self._seen[kind], _FOR_EVER) for kind in self._away)]

    @property
    def is_away(self) -> bool:
        """Whether one of the watches is away."""
        with self._lock:
            return bool(self._away)

    def count(self) -> int:
        """How many events there are so far."""
        with self._lock:
            return len(self._entries)

    def add(self, obj: Json, kind: str) -> None:
        """Add the answer of a write: if a watch breaks at this moment, it may never show this version."""
        obj = _with_kind(obj, kind)
        with self._lock:
            if obj["metadata"]["uid"] in self._current[kind]:
                self._upsert(kind, obj["metadata"]["uid"], obj)
            else:
                self._unseen[kind][obj["metadata"]["uid"]] = obj
                self._note(Entry(int(obj["metadata"]["resourceVersion"]), kind, "MODIFIED", obj))

    def is_complete(self) -> bool:
        """Whether all that has happened until now is in the journal. Raises KubeError."""
        for kind, resource in self._resources.items():
            page = self._client.list(resource, self._namespace, _decode)
            live = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in page.items}
            recorded = {obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in self.current(kind)}
            if live != recorded:
                return False
        return True

    def wait(self, seconds: float) -> None:
        """Wait for the next change, but at most this many seconds."""
        with self._lock:
            self._lock.wait(seconds)

    def _follow(self, kind: str) -> None:
        version = ""
        while not self._stop.is_set():
            try:
                if not version:
                    version = self._relist(kind)
                version = self._watch(kind, version)
            except KubeError:
                # Also after a compaction or a restart: what was missed is read off the difference.
                version = ""
            if not version:
                with self._lock:
                    self._away |= {kind} & self._seen.keys()
                self._stop.wait(0.05)

    def _relist(self, kind: str) -> str:
        page = self._client.list(self._resources[kind], self._namespace, _decode)
        listed = {item["metadata"]["uid"]: _with_kind(item, kind) for item in page.items}
        with self._lock:
            version = int(page.resource_version)
            if kind in self._seen:
                self._gaps.append((self._seen[kind], version))
            self._seen[kind] = version
            self._away.discard(kind)
            for recorded in (self._current[kind], self._unseen[kind]):
                for uid in recorded.keys() - listed.keys():
                    if int(recorded[uid]["metadata"]["resourceVersion"]) <= version:
                        self._note(Entry(version, kind, "DELETED", recorded.pop(uid)))
            for uid, obj in listed.items():
                self._upsert(kind, uid, obj)
        return page.resource_version

    def _watch(self, kind: str, version: str) -> str:
        stream = self._client.watch(
            self._resources[kind], self._namespace, _decode, WatchOptions(resource_version=version, timeout_seconds=600)
        )
        self._watches[kind] = stream
        with stream:
            for event in stream:
                if self._stop.is_set():
                    return version
                if event.object is None:
                    version = event.resource_version
                    continue
                obj = _with_kind(event.object, kind)
                version = str(obj["metadata"]["resourceVersion"])
                with self._lock:
                    self._seen[kind] = int(version)
                    if event.type is WatchEventType.DELETED:
                        self._current[kind].pop(obj["metadata"]["uid"], None)
                        self._unseen[kind].pop(obj["metadata"]["uid"], None)
                        self._note(Entry(int(version), kind, "DELETED", obj))
                    else:
                        self._upsert(kind, obj["metadata"]["uid"], obj)
        return version

    def _upsert(self, kind: str, uid: str, obj: Json) -> None:
        self._unseen[kind].pop(uid, None)
        old = self._current[kind].get(uid)
        version = int(obj["metadata"]["resourceVersion"])
        recorded_version = int(old["metadata"]["resourceVersion"]) if old is not None else -1
        if recorded_version > version:
            # The answer to a write may be here before the watch shows the versions that others wrote before it.
            self._note(Entry(version, kind, "MODIFIED", obj))
        if recorded_version >= version:
            return
        self._current[kind][uid] = obj
        self._note(Entry(version, kind, "MODIFIED" if old is not None else "ADDED", obj))

    def _note(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._lock.notify_all()


def _with_kind(obj: Json, kind: str) -> Json:
    return {**obj, "kind": kind}
