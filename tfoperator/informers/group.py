"""Several informers of one resource, used as one.

`--namespace a --namespace b` needs a watch per namespace (there is no such thing as a watch of two), but a controller
should not have to know. Usually a group holds one informer, for all namespaces.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.informers.delivery import Registration
from tfoperator.informers.protocols import ResourceEventHandler
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.informers.store.indexes import IndexFunction
from tfoperator.informers.store.lister import Lister
from tfoperator.kube.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class Together(ABC):
    """Informers, or groups of them, that are awaited and stopped as one."""

    _clock: Clock

    @property
    @abstractmethod
    def members(self) -> Sequence[SharedInformer[Any] | InformerGroup[Any]]:
        """Those that there are now."""

    @property
    def failure(self) -> Exception | None:
        """The first member's failure, if one has failed (for a health check)."""
        return next((member.failure for member in self.members if member.failure is not None), None)

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds of the clock (None: without limit) until every cache is complete."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        for member in self.members:
            if not member.wait_for_sync(None if deadline is None else max(deadline - self._clock.monotonic(), 0)):
                return False
        return True

    def signal_stop(self) -> None:
        """Begin to stop every member, without waiting."""
        for member in self.members:
            member.signal_stop()

    def stop(self, timeout: float = 10) -> bool:
        """Stop all members at once; False if one was still busy after `timeout` real seconds in all."""
        self.signal_stop()
        deadline = time.monotonic() + timeout
        ended = [member.stop(max(deadline - time.monotonic(), 0)) for member in self.members]
        return all(ended)


class InformerGroup(Together, Generic[T]):
    """Informers of disjoint collections (one resource, different namespaces) as one. Thread-safe."""

    def __init__(self, informers: Sequence[SharedInformer[T]], *, name: str, clock: Clock | None = None) -> None:
        self.informers = tuple(informers)
        self.name = name
        self._clock = clock or SystemClock()
        self.lister = Lister(*(informer.indexer for informer in self.informers))

    @property
    def has_synced(self) -> bool:
        """Whether every cache is complete."""
        return all(informer.has_synced for informer in self.informers)

    @property
    def members(self) -> Sequence[SharedInformer[T]]:
        """One per namespace, or one for all."""
        return self.informers

    @property
    def versions(self) -> Sequence[str]:
        """The version that each member has reached; empty before its first list."""
        return [informer.last_sync_resource_version for informer in self.informers]

    def add_handler(
        self, handler: ResourceEventHandler[T], *, resync_period: float | None = None, name: str = ""
    ) -> Registration[T]:
        """As `SharedInformer.add_handler`. One thread per member: calls are in order per namespace, not overall."""
        parts = [i.add_handler(handler, resync_period=resync_period, name=name) for i in self.informers]
        return Registration([delivery for part in parts for delivery in part.deliveries], clock=self._clock)

    def remove_handler(self, registration: Registration[T]) -> None:
        """As `SharedInformer.remove_handler`."""
        for informer in self.informers:
            informer.remove_handler(registration)

    def add_indexers(self, indexers: Mapping[str, IndexFunction[T]]) -> None:
        """As `SharedInformer.add_indexers`."""
        for informer in self.informers:
            informer.add_indexers(indexers)

    def start(self) -> None:
        """Start every member that has not been started."""
        for informer in self.informers:
            if not informer.started:
                informer.start()

    def relist(self) -> None:
        """As `SharedInformer.relist`, for every member."""
        for informer in self.informers:
            informer.relist()
