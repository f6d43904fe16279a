"""One informer per collection for a whole process: whoever asks for the same collection shares its watch and cache."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.informers.group import InformerGroup, Together
from tfoperator.informers.metrics import InformerMetrics
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.informers.store.indexes import IndexFunction
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.options import EVERYTHING, Selection
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Decoder

T = TypeVar("T", bound=HasMetadata)


class SharedInformerFactory(Together):
    """Makes, starts and stops informers. Thread-safe."""

    def __init__(
        self,
        client: ApiClient,
        *,
        namespaces: Sequence[str] = ("",),
        clock: Clock | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        """`namespaces` are watched one by one; "" is all. What has no namespace is watched once."""
        if not namespaces or (len(namespaces) > 1 and "" in namespaces):
            raise ValueError(f'namespaces must be ("",) for all, or names; is {tuple(namespaces)!r}')
        self._client = client
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._clock = clock or SystemClock()
        self._rng = random.Random()
        self._metrics = metrics or InformerMetrics()
        self._lock = threading.Lock()  # guards _groups
        self._groups: dict[tuple[Resource, Selection], tuple[Decoder[Any], InformerGroup[Any]]] = {}

    def informer(
        self,
        resource: Resource,
        decode: Decoder[T],
        selection: Selection = EVERYTHING,
        *,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
    ) -> InformerGroup[T]:
        """The informers of a collection, as one; a new one must be started by `start()`.

        Asked again for a collection, returns the same group and adds the indexes that it has not got. Raises ValueError
        if the same collection was asked for with another `decode`: its cache holds objects of the first one's type.
        """
        collection = (resource, selection)
        with self._lock:
            if collection in self._groups:
                first_decode, known = self._groups[collection]
                if first_decode != decode:
                    raise ValueError(f"the informer of {resource.plural} exists with another decoder: share one")
                group = cast("InformerGroup[T]", known)
                for informer in group.informers:
                    missing = {k: f for k, f in (indexers or {}).items() if not informer.indexer.has_index(k)}
                    informer.add_indexers(missing)
                return group
            name = resource.plural
            members = [
                SharedInformer(
                    self._client.list_watch(resource, namespace, decode, selection),
                    name=f"{name}/{namespace}" if namespace else name,
                    indexers=indexers,
                    clock=self._clock,
                    rng=self._rng,
                    metrics=self._metrics,
                )
                for namespace in (self._namespaces if resource.namespaced else ("",))
            ]
            group = InformerGroup(members, name=name, clock=self._clock)
            self._groups[collection] = (decode, group)
            return group

    def start(self) -> None:
        """Start every informer that has not been started. May be called again after more were asked for."""
        for group in self.members:
            group.start()

    @property
    def members(self) -> list[InformerGroup[Any]]:
        """The groups that were asked for."""
        with self._lock:
            return [group for _, group in self._groups.values()]
