"""One informer per collection for a whole process: whoever asks for the same collection shares its watch and cache."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from tfoperator.clock import Clock, SystemClock
from tfoperator.informers.group import InformerGroup
from tfoperator.informers.indexes import IndexFunction
from tfoperator.informers.metrics import InformerMetrics, NoMetrics
from tfoperator.informers.protocols import Transform
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Decoder

__all__ = ["SharedInformerFactory"]

T = TypeVar("T", bound=HasMetadata)


class _Collection(NamedTuple):
    resource: Resource
    label_selector: str
    field_selector: str


class SharedInformerFactory:
    """Makes, starts and stops informers. Thread-safe."""

    def __init__(
        self,
        client: ApiClient,
        *,
        namespaces: Sequence[str] = ("",),
        resync_period: float = 0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        metrics: InformerMetrics | None = None,
        use_watch_list: bool = True,
    ) -> None:
        """`namespaces` are watched one by one; "" is all. What has no namespace is watched once.

        `resync_period` (seconds) is the default of handlers.
        """
        if not namespaces or (len(namespaces) > 1 and "" in namespaces):
            raise ValueError(f'namespaces must be ("",) for all, or names; is {tuple(namespaces)!r}')
        self._client = client
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._resync_period = resync_period
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._metrics = metrics or NoMetrics()
        self._use_watch_list = use_watch_list
        self._lock = threading.Lock()  # guards _groups
        self._groups: dict[_Collection, tuple[Decoder[Any], InformerGroup[Any]]] = {}

    def informer(
        self,
        resource: Resource,
        decode: Decoder[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        transform: Transform[T] | None = None,
        name: str = "",
    ) -> InformerGroup[T]:
        """The informers of a collection, as one; a new one must be started by `start()`.

        Asked again for a collection, returns the same group and adds the indexes that it has not got; `transform` and
        `name` (default: the resource's plural) count the first time only. Raises ValueError if the same collection
        was asked for with another `decode`: its cache holds objects of the first one's type.
        """
        collection = _Collection(resource, label_selector, field_selector)
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
            name = name or resource.plural
            members = [
                SharedInformer(
                    self._client.list_watch(
                        resource, namespace, decode, label_selector=label_selector, field_selector=field_selector
                    ),
                    name=f"{name}/{namespace}" if namespace else name,
                    indexers=indexers,
                    resync_period=self._resync_period,
                    transform=transform,
                    clock=self._clock,
                    rng=self._rng,
                    metrics=self._metrics,
                    use_watch_list=self._use_watch_list,
                )
                for namespace in (self._namespaces if resource.namespaced else ("",))
            ]
            group = InformerGroup(members, name=name, clock=self._clock)
            self._groups[collection] = (decode, group)
            return group

    def start(self) -> None:
        """Start every informer that has not been started. May be called again after more were asked for."""
        for group in self._all():
            group.start()

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds of the clock (None: without limit) until every cache is complete."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        for group in self._all():
            if not group.wait_for_sync(None if deadline is None else max(deadline - self._clock.monotonic(), 0)):
                return False
        return True

    def signal_stop(self) -> None:
        """Begin to stop all informers, without waiting."""
        for group in self._all():
            group.signal_stop()

    def stop(self, timeout: float = 10) -> bool:
        """Stop all informers at once; False if one was still busy after `timeout` real seconds in all."""
        self.signal_stop()
        deadline = time.monotonic() + timeout
        ended = [group.stop(max(deadline - time.monotonic(), 0)) for group in self._all()]
        return all(ended)

    @property
    def failure(self) -> Exception | None:
        """The first failure of an informer, if one has failed (for a health check)."""
        return next((group.failure for group in self._all() if group.failure is not None), None)

    def _all(self) -> list[InformerGroup[Any]]:
        with self._lock:
            return [group for _, group in self._groups.values()]
