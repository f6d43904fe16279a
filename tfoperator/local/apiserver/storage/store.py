"""The state: all objects, one revision counter, and the last events of each resource type.

A snapshot of any revision in the history is the current state without the later events. So consistent paging, exact
lists and watches from the past all use the same bounded history. Older revisions have *expired*. A stored object is
never changed: an update stores a new dictionary, so readers need no copies.

If a type has several versions, the store keeps the objects of the type in only one version. The other versions are
views: the store converts the objects on each read and write of a view, as kube-apiserver does. All other code uses
these versions like separate resource types.

The store is not thread-safe: only the server's event loop uses it, so its operations must not block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.resource_types import ResourceType

encode = msgspec.json.Encoder().encode
"""Encodes, as compact JSON, a value that the server stores or sends."""


class ServedView(msgspec.Struct, frozen=True):
    """A version that is served but not stored.

    `to_stored` and `from_stored` may keep and change the object that they get as an argument.
    """

    resource: ResourceType
    stored: ResourceType
    to_stored: Callable[[Json], Json]
    from_stored: Callable[[Json], Json]


class Compacted(Exception):
    """The revision is older than the history. `oldest` is the first revision that can still be used."""

    def __init__(self, oldest: int) -> None:
        """Initialize with the oldest usable revision."""
        super().__init__(f"history begins at {oldest}")
        self.oldest = oldest


class StoredObject:
    """One version of one object: the dictionary (callers must not change it) and its JSON, which is encoded once."""

    __slots__ = ("data", "key", "obj", "revision")

    def __init__(self, key: str, obj: dict[str, Any], revision: int) -> None:
        """Set the revision in the metadata, and encode the object."""
        obj["metadata"]["resourceVersion"] = str(revision)
        self.key = key
        self.obj = obj
        self.data = encode(obj)
        self.revision = revision

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata."""
        metadata: dict[str, Any] = self.obj["metadata"]
        return metadata

    def copy(self) -> dict[str, Any]:
        """Return a private copy of the dictionary. Decoding is several times faster than `copy.deepcopy`."""
        copied: dict[str, Any] = msgspec.json.decode(self.data)
        return copied


class StoreChange(msgspec.Struct, eq=False, gc=False):
    """One change of an object, from which watches make their events. `old` is None for an added object, `new` is None
    for a deleted object; `last` is the newest state.

    For a deletion, `last` is the last state, with the revision of the deletion.
    """

    resource: ResourceType
    revision: int
    old: StoredObject | None
    new: StoredObject | None
    last: StoredObject


Observer = Callable[[StoreChange], None]


class _Shelf:
    """The state of one resource type."""

    def __init__(self, revision: int, history_limit: int) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.history: deque[StoreChange] = deque(maxlen=history_limit)
        self.compacted = revision  # events up to and including this revision are deleted
        self.observers: list[Observer] = []

    def record(self, change: StoreChange) -> None:
        if len(self.history) == self.history.maxlen:
            self.compacted = self.history[0].revision
        self.history.append(change)


class Store:
    """All objects of all resource types. `history_limit` is the number of events that are kept for each type.

    `first_revision` should be larger than every revision of an earlier server at the same address. Then, if a client of
    the earlier server has a version, this version has expired, and the client lists again. Otherwise this server
    could reach the same version, and a watch of the client from this version would miss the changes before it.
    """

    def __init__(
        self,
        resources: Iterable[ResourceType],
        *,
        views: Iterable[ServedView] = (),
        first_revision: int = 1,
        history_limit: int = 2000,
    ) -> None:
        """Start without objects, at `first_revision`.

        `views` contains the resources that the server serves, but does not store.
        """
        self.revision = first_revision
        self._views = {view.resource: view for view in views}
        stored = (resource for resource in resources if resource not in self._views)
        self._shelves = {resource: _Shelf(first_revision, history_limit) for resource in stored}
        self._observers: list[Observer] = []

    def get(self, resource: ResourceType, key: str) -> StoredObject | None:
        """Return the current version of one object."""
        stored = self._shelf(resource).objects.get(key)
        return None if stored is None else self._shown(resource, stored)

    def objects(self, resource: ResourceType, namespace: str = "") -> list[StoredObject]:
        """Return the current objects, in the order of their keys. An empty namespace means all namespaces."""
        return self._all_shown(resource, _sorted(self._shelf(resource).objects, namespace))

    def objects_at(self, resource: ResourceType, revision: int, namespace: str = "") -> list[StoredObject]:
        """Return the objects as they were at a revision. Raises Compacted if the revision is older than the history."""
        shelf = self._shelf(resource)
        if revision < shelf.compacted:
            raise Compacted(shelf.compacted)
        objects = dict(shelf.objects)
        for change in reversed(shelf.history):
            if change.revision <= revision:
                break
            if change.old is None:
                objects.pop(change.last.key, None)
            else:
                objects[change.last.key] = change.old
        return self._all_shown(resource, _sorted(objects, namespace))

    def changes_since(self, resource: ResourceType, revision: int) -> list[StoreChange]:
        """Return the events after a revision, the oldest event first.

        Raises Compacted if the revision is older than the history.
        """
        shelf = self._shelf(resource)
        if revision < shelf.compacted:
            raise Compacted(shelf.compacted)
        return [self._shown_change(resource, change) for change in shelf.history if change.revision > revision]

    def create(self, resource: ResourceType, key: str, obj: dict[str, Any]) -> StoredObject:
        """Add an object.

        The caller makes sure that no object has this key, and must not use `obj` any more.
        """
        return self._put(resource, key, obj, None)

    def update(self, resource: ResourceType, key: str, obj: dict[str, Any]) -> StoredObject:
        """Replace an existing object."""
        return self._put(resource, key, obj, self._shelf(resource).objects[key])

    def _put(self, resource: ResourceType, key: str, obj: dict[str, Any], old: StoredObject | None) -> StoredObject:
        shelf = self._shelf(resource)
        stored = shelf.objects[key] = StoredObject(key, self._to_store(resource, obj), self._next())
        self._publish(shelf, StoreChange(self._stored_as(resource), stored.revision, old, stored, stored))
        return self._shown(resource, stored)

    def delete(self, resource: ResourceType, key: str, final: dict[str, Any] | None = None) -> StoredObject:
        """Remove an existing object.

        `final` is the object's last state, which watches get with the deletion. By default, it is the state in the
        store.
        """
        shelf = self._shelf(resource)
        old = shelf.objects.pop(key)
        obj = old.copy() if final is None else self._to_store(resource, final)
        last = StoredObject(key, obj, self._next())
        self._publish(shelf, StoreChange(self._stored_as(resource), last.revision, old, None, last))
        return self._shown(resource, last)

    def observe(self, observer: Observer, resource: ResourceType | None = None) -> Callable[[], None]:
        """Call `observer` after every change; if `resource` is set, only after changes of this resource type.

        The observer must not block. Return a function that ends the observation. Without `resource`, the observer gets
        each change once, in the stored version.
        """
        observers = self._observers if resource is None else self._shelf(resource).observers
        if resource in self._views:
            view, notify = resource, observer

            def observer(change: StoreChange) -> None:
                notify(self._shown_change(view, change))

        observers.append(observer)
        return lambda: observers.remove(observer)

    def compact(self) -> None:
        """Delete the history. Then every earlier revision has expired."""
        for shelf in self._shelves.values():
            shelf.history.clear()
            shelf.compacted = self.revision

    # Views.

    def _stored_as(self, resource: ResourceType) -> ResourceType:
        view = self._views.get(resource)
        return resource if view is None else view.stored

    def _shelf(self, resource: ResourceType) -> _Shelf:
        return self._shelves[self._stored_as(resource)]

    def _to_store(self, resource: ResourceType, obj: dict[str, Any]) -> dict[str, Any]:
        view = self._views.get(resource)
        return obj if view is None else view.to_stored(obj)

    def _shown(self, resource: ResourceType, stored: StoredObject) -> StoredObject:
        view = self._views.get(resource)
        if view is None:
            return stored
        return StoredObject(stored.key, view.from_stored(stored.copy()), stored.revision)

    def _all_shown(self, resource: ResourceType, objects: list[StoredObject]) -> list[StoredObject]:
        return [self._shown(resource, stored) for stored in objects] if resource in self._views else objects

    def _shown_change(self, resource: ResourceType, change: StoreChange) -> StoreChange:
        if resource not in self._views:
            return change
        old, new = (None if stored is None else self._shown(resource, stored) for stored in (change.old, change.new))
        last = new if change.last is change.new and new is not None else self._shown(resource, change.last)
        return StoreChange(resource, change.revision, old, new, last)

    def _next(self) -> int:
        self.revision += 1
        return self.revision

    def _publish(self, shelf: _Shelf, change: StoreChange) -> None:
        shelf.record(change)
        for observer in (*shelf.observers, *self._observers):
            observer(change)


def _sorted(objects: dict[str, StoredObject], namespace: str) -> list[StoredObject]:
    prefix = f"{namespace}/" if namespace else ""
    return [objects[key] for key in sorted(objects) if key.startswith(prefix)]
