"""Several informers of one resource behind the face of one.

`--namespace a --namespace b` needs a watch per namespace (there is no such thing as a watch of two), but a controller
should not have to know. Usually a group holds one informer, for all namespaces.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from tfoperator.clock import Clock, SystemClock
from tfoperator.informers.delivery import Registration
from tfoperator.informers.indexes import IndexFunction
from tfoperator.informers.lister import Lister
from tfoperator.informers.protocols import ResourceEventHandler
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.kube.objects import HasMetadata

__all__ = ["InformerGroup"]

T = TypeVar("T", bound=HasMetadata)


class InformerGroup(Generic[T]):
    """Informers of disjoint collections (one resource, different namespaces) as one. Thread-safe."""

    def __init__(self, informers: Sequence[SharedInformer[T]], *, name: str, clock: Clock | None = None) -> None:
        self._informers = tuple(informers)
        self._name = name
        self._clock = clock or SystemClock()
        self._lister = Lister([informer.indexer for informer in self._informers], resource=name)

    @property
    def name(self) -> str:
        """As given, e.g. `pods`."""
        return self._name

    @property
    def informers(self) -> tuple[SharedInformer[T], ...]:
        """The members."""
        return self._informers

    @property
    def lister(self) -> Lister[T]:
        """Reads all the caches."""
        return self._lister

    @property
    def has_synced(self) -> bool:
        """Whether every cache is complete."""
        return all(informer.has_synced for informer in self._informers)

    @property
    def failure(self) -> Exception | None:
        """The first member's failure, if one has failed."""
        return next((informer.failure for informer in self._informers if informer.failure is not None), None)

    def add_handler(
        self, handler: ResourceEventHandler[T], *, resync_period: float | None = None, name: str = ""
    ) -> Registration[T]:
        """As `SharedInformer.add_handler`. One thread per member: calls are in order per namespace, not overall."""
        parts = [i.add_handler(handler, resync_period=resync_period, name=name) for i in self._informers]
        return Registration([delivery for part in parts for delivery in part.deliveries], clock=self._clock)

    def remove_handler(self, registration: Registration[T]) -> None:
        """As `SharedInformer.remove_handler`."""
        for informer in self._informers:
            informer.remove_handler(registration)

    def add_indexers(self, indexers: Mapping[str, IndexFunction[T]]) -> None:
        """As `SharedInformer.add_indexers`."""
        for informer in self._informers:
            informer.add_indexers(indexers)

    def start(self) -> None:
        """Start every member that has not been started."""
        for informer in self._informers:
            if not informer.started:
                informer.start()

    def signal_stop(self) -> None:
        """Begin to stop every member, without waiting."""
        for informer in self._informers:
            informer.signal_stop()

    def stop(self, timeout: float = 10) -> bool:
        """Stop all members at once; False if one was still busy after `timeout` real seconds in all."""
        self.signal_stop()
        deadline = time.monotonic() + timeout
        ended = [informer.stop(max(deadline - time.monotonic(), 0)) for informer in self._informers]
        return all(ended)

    def relist(self) -> None:
        """As `SharedInformer.relist`, for every member."""
        for informer in self._informers:
            informer.relist()

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds of the clock (None: without limit) until `has_synced`; returns that."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        for informer in self._informers:
            if not informer.wait_for_sync(None if deadline is None else max(deadline - self._clock.monotonic(), 0)):
                return False
        return True
