"""The cache of an informer: objects by key and by index, and the interface for reading them.

The cache stores references to objects, so a cache of thousands of pods needs only the memory of the pods, and a look-up
copies a list at most. That is safe because views are frozen: all readers share the object, and can't write to it.

The children of a job, and the objects that it might adopt, are found by one dictionary look-up, as in the controllers
of Kubernetes since 1.34; the Go operator scans a namespace for every sync of every job.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from tfoperator.kube.views.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)
V = TypeVar("V")

IndexFunction = Callable[[V], Sequence[str]]
"""The values under which an object is found. Pure and quick: it runs under the indexer's lock, twice per update."""

CONTROLLER_UID_INDEX = "controller-uid"
"""Index name: objects by the UID of the owner that controls them. Not by its name, which may be taken again."""

ORPHANS_INDEX = "orphans"
"""Index name: objects without a controller, by their namespace. Objects with a controller are not in it at all."""


def index_by_controller_uid(obj: HasMetadata) -> Sequence[str]:
    """Return the values for `CONTROLLER_UID_INDEX`."""
    controller = obj.metadata.controller
    return (controller.uid,) if controller is not None else ()


def index_orphans(obj: HasMetadata) -> Sequence[str]:
    """Return the values for `ORPHANS_INDEX`."""
    return () if obj.metadata.controller is not None else (obj.metadata.namespace,)


class UnknownIndex(LookupError):
    """There is no index of that name: the caller made an error, not the data."""


class IndexFunctionError(Exception):
    """An index function raised. Fatal: an object that can't be indexed would be missing for ever, unnoticed."""


# Buckets are dictionaries rather than sets: they hold the objects and return them in a stable order.
_Buckets = dict[str, dict[str, T]]


class Indexer(Generic[T]):
    """A thread-safe map from `metadata.key` to object with secondary indexes.

    Every method is atomic: a reader sees an object in the store and in all its index buckets, or in none. The caller
    may change the returned lists, but the objects are shared and must be treated as read-only.
    """

    def __init__(self, indexers: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._items: dict[str, T] = {}
        self._functions: dict[str, IndexFunction[T]] = dict(indexers or {})
        self._indexes: dict[str, _Buckets[T]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._items)

    # --- reading

    def get(self, key: str) -> T | None:
        """Return the object with this `object_key`, None if there is no such object."""
        with self._lock:
            return self._items.get(key)

    def get_all(self, keys: Sequence[str]) -> builtins.list[T | None]:
        """Return the objects under these keys at one moment, None for each missing object."""
        with self._lock:
            return [*map(self._items.get, keys)]

    def list(self) -> builtins.list[T]:
        """Return all objects."""
        with self._lock:
            return [*self._items.values()]

    def keys(self) -> builtins.list[str]:
        """Return the keys of all objects."""
        with self._lock:
            return [*self._items]

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """Return the objects for which index `name` has this value. Raises UnknownIndex."""
        with self._lock:
            bucket = self._buckets(name).get(value)
            return [*bucket.values()] if bucket else []

    # --- writing, for the informer that owns this store

    def add(self, obj: T) -> T | None:
        """Put an object in place of the object with its key; return the old object. Raises IndexFunctionError.

        The index functions run before anything changes: if an index function fails, the store stays as it was.
        """
        key = obj.metadata.key
        with self._lock:
            fresh = _index_values(self._functions, key, obj)
            old = self._items.get(key)
            if old is not None:
                self._unlink(key, _index_values(self._functions, key, old), keep=fresh)
            self._items[key] = obj
            self._link(key, obj, fresh)
            return old

    def delete(self, key: str) -> T | None:
        """Remove the object with this key; return it, None if there was none."""
        with self._lock:
            old = self._items.pop(key, None)
            if old is not None:
                self._unlink(key, _index_values(self._functions, key, old))
            return old

    def replace(self, objects: Iterable[T]) -> dict[str, T]:
        """Hold exactly these objects from now on; return the previous objects, by key. Raises IndexFunctionError."""
        items = {obj.metadata.key: obj for obj in objects}
        with self._lock:
            indexes = _build_indexes(self._functions, items)
            old, self._items = self._items, items
            self._indexes = indexes
            return old

    # --- under the lock

    def _buckets(self, name: str) -> _Buckets[T]:
        try:
            return self._indexes[name]
        except KeyError:
            raise UnknownIndex(f"there is no index {name!r}; the indexes are {sorted(self._indexes)}") from None

    def _link(self, key: str, obj: T, values_by_index: Mapping[str, Sequence[str]]) -> None:
        for name, values in values_by_index.items():
            buckets = self._indexes[name]
            for value in values:
                buckets.setdefault(value, {})[key] = obj

    def _unlink(
        self, key: str, values_by_index: Mapping[str, Sequence[str]], keep: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        for name, values in values_by_index.items():
            buckets = self._indexes[name]
            kept = keep[name] if keep is not None else ()
            for value in values:
                if value in kept:
                    continue  # stays where it is in its bucket; the object is exchanged by _link
                bucket = buckets[value]
                bucket.pop(key, None)
                if not bucket:
                    del buckets[value]


class Lister(Generic[T]):
    """Reads from the cache only, never from the server. Thread-safe; the objects are shared and read-only."""

    def __init__(self, *indexers: Indexer[T]) -> None:
        """Initialize; `indexers` hold disjoint sets of objects."""
        self._indexers = indexers

    def find(self, key: str) -> T | None:
        """Return the object with this `object_key`, None if the cache has none: the API server may have it."""
        for indexer in self._indexers:
            obj = indexer.get(key)
            if obj is not None:
                return obj
        return None

    def get_all(self, keys: Sequence[str]) -> builtins.list[T | None]:
        """Return the objects with these keys, None for each missing object."""
        found = self._indexers[0].get_all(keys)
        for indexer in self._indexers[1:]:
            found = [other if obj is None else obj for obj, other in zip(found, indexer.get_all(keys), strict=True)]
        return found

    def keys(self, namespace: str = "") -> builtins.list[str]:
        """Return the keys of all objects of a namespace ("": of all), found by a scan."""
        keys = [key for indexer in self._indexers for key in indexer.keys()]  # noqa: SIM118 - it is no dict
        return [key for key in keys if key.startswith(f"{namespace}/")] if namespace else keys

    def list(self, namespace: str = "") -> builtins.list[T]:
        """Return all objects of a namespace ("": of all), found by a scan."""
        found: builtins.list[T] = []
        for indexer in self._indexers:
            found += indexer.list()
        return [obj for obj in found if obj.metadata.namespace == namespace] if namespace else found

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """Return the objects for which index `name` has this value. Raises UnknownIndex."""
        if len(self._indexers) == 1:
            return self._indexers[0].by_index(name, value)
        return [obj for indexer in self._indexers for obj in indexer.by_index(name, value)]


def _index_values(functions: Mapping[str, IndexFunction[T]], key: str, obj: T) -> dict[str, Sequence[str]]:
    values: dict[str, Sequence[str]] = {}
    for name, function in functions.items():
        try:
            values[name] = tuple(dict.fromkeys(function(obj)))
        except Exception as error:
            raise IndexFunctionError(f"index {name!r} can't be computed for {key}: {error!r}") from error
    return values


def _build_indexes(functions: Mapping[str, IndexFunction[T]], items: Mapping[str, T]) -> dict[str, _Buckets[T]]:
    indexes: dict[str, _Buckets[T]] = {name: {} for name in functions}
    for key, obj in items.items():
        for name, values in _index_values(functions, key, obj).items():
            for value in values:
                indexes[name].setdefault(value, {})[key] = obj
    return indexes
