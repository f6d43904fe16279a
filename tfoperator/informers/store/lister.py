"""Reading the cache as if it were the API server: by namespace and name, by namespace, by index.

A lister spans one indexer or several, so that a controller restricted to a few namespaces (one informer each) reads
them like one that watches the whole cluster.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Generic, TypeVar

from tfoperator.informers.store.indexer import Indexer
from tfoperator.kube.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class Lister(Generic[T]):
    """Reads from the cache only, never from the server. Thread-safe; the objects are shared and read-only."""

    def __init__(self, *indexers: Indexer[T]) -> None:
        """`indexers` hold disjoint sets of objects."""
        self._indexers = indexers

    def find(self, key: str) -> T | None:
        """Return the object with this `object_key`, None if the cache has none: the API server may have it."""
        for indexer in self._indexers:
            obj = indexer.get(key)
            if obj is not None:
                return obj
        return None

    def get_all(self, keys: Sequence[str]) -> builtins.list[T | None]:
        """The objects with these keys (`namespace/name`), None for those that are not there."""
        found = self._indexers[0].get_all(keys)
        for indexer in self._indexers[1:]:
            found = [other if one is None else one for one, other in zip(found, indexer.get_all(keys), strict=True)]
        return found

    def keys(self, namespace: str = "") -> builtins.list[str]:
        """The keys of all objects of a namespace ("": of all), found by a scan."""
        keys = [key for indexer in self._indexers for key in indexer.keys()]  # noqa: SIM118 - it is no dict
        return [key for key in keys if key.startswith(f"{namespace}/")] if namespace else keys

    def list(self, namespace: str = "") -> builtins.list[T]:
        """All objects of a namespace ("": of all), found by a scan."""
        found: builtins.list[T] = []
        for indexer in self._indexers:
            found += indexer.list()
        return [obj for obj in found if obj.metadata.namespace == namespace] if namespace else found

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """The objects for which index `name` has this value. Raises UnknownIndex."""
        if len(self._indexers) == 1:
            return self._indexers[0].by_index(name, value)
        return [obj for indexer in self._indexers for obj in indexer.by_index(name, value)]
