"""The cache of an informer, which stores objects by key and by index, and the interface for reading from it.

The cache stores references to objects. So a cache of thousands of pods needs little more memory than the pods, and a
look-up copies at most a list. That is safe because the objects are frozen: all readers share an object, and can't write
to it.

One dictionary look-up finds the children of a job, and the objects that the job might adopt. The controllers of
Kubernetes do the same since 1.34. The Go operator scans a namespace for every sync of every job.
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
"""Returns the index values under which readers find an object. It must be pure and quick, because it runs while the
indexer's lock is held, twice per update.
"""

CONTROLLER_UID_INDEX = "controller-uid"
"""The name of an index of objects by the UID of the owner that controls them. The index does not use the owner's name,
because a new object may get the same name.
"""

ORPHANS_INDEX = "orphans"
"""The name of an index of objects without a controller, by their namespace. This index does not contain objects that
have a controller.
"""


def index_by_controller_uid(obj: HasMetadata) -> Sequence[str]:
    """Return the values for `CONTROLLER_UID_INDEX`."""
    controller = obj.metadata.controller
    return (controller.uid,) if controller is not None else ()


def index_orphans(obj: HasMetadata) -> Sequence[str]:
    """Return the values for `ORPHANS_INDEX`."""
    return () if obj.metadata.controller is not None else (obj.metadata.namespace,)


class UnknownIndex(LookupError):
    """An index with this name does not exist. The caller made this error; the data are not the cause."""


class IndexFunctionError(Exception):
    """An index function raised an exception.

    The informer then stops to update its cache, and reports the error as its `failure`. If it continued, an object that
    can't be indexed would be missing without notice.
    """


# Buckets are dictionaries rather than sets: they hold the objects and return them in a stable order.
_Buckets = dict[str, dict[str, T]]


class Indexer(Generic[T]):
    """A thread-safe map from `metadata.key` to object with secondary indexes.

    Every method is atomic: a reader finds an object in the store and in all its indexes, or in none of them. The caller
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
        """Return the object with this `object_key`. Return None if there is no such object."""
        with self._lock:
            return self._items.get(key)

    def get_all(self, keys: Sequence[str]) -> builtins.list[T | None]:
        """Return the objects under these keys, all read at the same moment.

        The result contains None for each missing object.
        """
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
        """Return the objects that have this value in the index `name`. Raises UnknownIndex without such an index."""
        with self._lock:
            bucket = self._buckets(name).get(value)
            return [*bucket.values()] if bucket else []

    # --- writing, for the informer that owns this store

    def add(self, obj: T) -> T | None:
        """Store an object, and replace an object with the same key.

        Return the replaced object, or None if the key is new. Raises IndexFunctionError if an index function fails: the
        store is then unchanged.
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
        """Remove the object with this key and return it. Return None if there was no such object."""
        with self._lock:
            old = self._items.pop(key, None)
            if old is not None:
                self._unlink(key, _index_values(self._functions, key, old))
            return old

    def replace(self, objects: Iterable[T]) -> dict[str, T]:
        """Replace the whole content by exactly these objects.

        Return the previous objects, by key. Raises IndexFunctionError if an index function fails: the store is then
        unchanged.
        """
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
    """Reads the caches of one or more informers, never the server. Thread-safe.

    All readers share the objects, so don't change them.
    """

    def __init__(self, *indexers: Indexer[T]) -> None:
        """Initialize. `indexers` contain disjoint sets of objects."""
        self._indexers = indexers

    def find(self, key: str) -> T | None:
        """Return the object with this `object_key`.

        Return None if the cache lacks it; the API server may still have it.
        """
        for indexer in self._indexers:
            obj = indexer.get(key)
            if obj is not None:
                return obj
        return None

    def get_all(self, keys: Sequence[str]) -> builtins.list[T | None]:
        """Return the objects with these keys. The result contains None for each missing object."""
        found = self._indexers[0].get_all(keys)
        for indexer in self._indexers[1:]:
            found = [other if obj is None else obj for obj, other in zip(found, indexer.get_all(keys), strict=True)]
        return found

    def keys(self, namespace: str = "") -> builtins.list[str]:
        """Return the keys of all objects in a namespace ("": in all namespaces). The method scans the whole cache."""
        keys = [key for indexer in self._indexers for key in indexer.keys()]  # noqa: SIM118 - it is no dict
        return [key for key in keys if key.startswith(f"{namespace}/")] if namespace else keys

    def list(self, namespace: str = "") -> builtins.list[T]:
        """Return all objects in a namespace ("": in all namespaces). The method scans the whole cache."""
        found: builtins.list[T] = []
        for indexer in self._indexers:
            found += indexer.list()
        return [obj for obj in found if obj.metadata.namespace == namespace] if namespace else found

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """Return the objects that have this value in the index `name`. Raises UnknownIndex without such an index."""
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
