"""One informer per collection for a whole process: all users of a collection share its watch and cache.

`--namespace a --namespace b` needs a watch per namespace, because a watch covers either one namespace or all
namespaces. A controller need not take care of this: it reads all informers of a group together. Usually a group holds
one informer, for all namespaces.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.informers.delivery import InformerMetrics, ResourceEventHandler
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.informers.store import IndexFunction, Lister
from tfoperator.kube.protocol.options import EVERYTHING, Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient, Decoder
from tfoperator.kube.views.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class Together(ABC):
    """A set of informers, or of groups of informers, that the caller waits for and stops together."""

    _clock: Clock

    @property
    @abstractmethod
    def members(self) -> Sequence[SharedInformer[Any] | InformerGroup[Any]]:
        """The current members."""

    @property
    def failure(self) -> Exception | None:
        """The failure of the first member that has failed, or None (for a health check)."""
        return next((member.failure for member in self.members if member.failure is not None), None)

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait until every cache is complete, for at most `timeout` seconds of the clock (None: no limit).

        Return False if a cache is not complete by then, or if a member was stopped or has failed.
        """
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        for member in self.members:
            if not member.wait_for_sync(None if deadline is None else max(deadline - self._clock.monotonic(), 0)):
                return False
        return True

    def signal_stop(self) -> None:
        """Tell every member to stop, without waiting."""
        for member in self.members:
            member.signal_stop()

    def stop(self, timeout: float = 10) -> bool:
        """Stop all members at the same time.

        Return False if a member is still busy after `timeout` real seconds in all.
        """
        self.signal_stop()
        deadline = time.monotonic() + timeout
        ended = [member.stop(max(deadline - time.monotonic(), 0)) for member in self.members]
        return all(ended)


class InformerGroup(Together, Generic[T]):
    """Several informers of disjoint collections, used like a single informer.

    The collections have the same resource, but different namespaces. Thread-safe.
    """

    def __init__(self, informers: Mapping[str, SharedInformer[T]], *, name: str, clock: Clock | None = None) -> None:
        """Initialize. `informers` contains the informers by namespace; the key "" stands for all namespaces."""
        self._by_namespace = dict(informers)
        self.informers = tuple(informers.values())
        self.name = name
        self._clock = clock or SystemClock()
        self.lister = Lister(*(informer.indexer for informer in self.informers))

    @property
    def has_synced(self) -> bool:
        """Whether every cache is complete."""
        return all(informer.has_synced for informer in self.informers)

    @property
    def members(self) -> Sequence[SharedInformer[T]]:
        """One informer per namespace, or one informer for all namespaces."""
        return self.informers

    @property
    def versions(self) -> Sequence[str]:
        """The resource version that each member has reached. A version is empty before the first list of its member."""
        return [informer.last_sync_resource_version for informer in self.informers]

    def version_of(self, namespace: str) -> str:
        """Return the resource version that the member for this namespace has reached.

        Raises KeyError if there is no such member.
        """
        member = namespace if namespace in self._by_namespace else ""  # "" is the member for all namespaces
        return self._by_namespace[member].last_sync_resource_version

    def add_handler(self, handler: ResourceEventHandler[T], *, resync_period: float = 0, name: str = "") -> None:
        """Call `SharedInformer.add_handler` of every member.

        Calls are in order only within a namespace: each namespace has its own thread.
        """
        for informer in self.informers:
            informer.add_handler(handler, resync_period=resync_period, name=name)

    def start(self) -> None:
        """Start every member that has not been started."""
        for informer in self.informers:
            if not informer.started:
                informer.start()

    def relist(self) -> None:
        """Call `SharedInformer.relist` of every member."""
        for informer in self.informers:
            informer.relist()


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
        """Initialize.

        Each entry of `namespaces` gets a watch; "" stands for all namespaces. Cluster-scoped resources are watched
        once.
        """
        if not namespaces or (len(namespaces) > 1 and "" in namespaces):
            raise ValueError(f'namespaces must be ("",) for all namespaces, or names, but is {tuple(namespaces)!r}')
        self._client = client
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._clock = clock or SystemClock()
        self._rng = random.Random()
        self._metrics = metrics or InformerMetrics()
        self._lock = threading.Lock()  # guards _groups
        self._groups: dict[tuple[Resource, Selection], InformerGroup[Any]] = {}

    def informer(
        self,
        resource: Resource,
        decode: Decoder[T],
        selection: Selection = EVERYTHING,
        *,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
    ) -> InformerGroup[T]:
        """Return new informers of a collection, combined into one. Call `start()` to start them.

        Raises ValueError if informers of this collection already exist. In this case, use the existing informers.
        """
        collection, name = (resource, selection), resource.plural
        with self._lock:
            if collection in self._groups:
                raise ValueError(f"informers of {name} with this selection already exist: use the existing informers")
            members = {
                namespace: SharedInformer(
                    self._client.list_watch(resource, namespace, decode, selection),
                    name=f"{name}/{namespace}" if namespace else name,
                    indexers=indexers,
                    clock=self._clock,
                    rng=self._rng,
                    metrics=self._metrics,
                )
                for namespace in (self._namespaces if resource.namespaced else ("",))
            }
            group = self._groups[collection] = InformerGroup(members, name=name, clock=self._clock)
            return group

    def start(self) -> None:
        """Start every informer that has not been started. Call it again after you have requested more informers."""
        for group in self.members:
            group.start()

    @property
    def members(self) -> list[InformerGroup[Any]]:
        """The groups that were requested so far."""
        with self._lock:
            return [*self._groups.values()]
