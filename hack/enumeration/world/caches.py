"""Feeds the operator's caches step by step: what lists and watches send, and what is lost or late on the way.

The caches, their indexes and their handlers are the operator's own (`SharedInformer`); only the threads between the
socket and the handlers are not there. The rules of a running informer for versions hold: a list after a gap is the
newest state, and a watch shows each later change once and in order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from hack.enumeration.world.server import SimulatedServer
from tfoperator.informers import InformerGroup
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.kube import Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import Decoder, WatchEvent, WatchEventType
from tfoperator.kube.watching.reflector import Listed
from tfoperator.local.apiserver.storage.selectors import parse_selector
from tfoperator.local.apiserver.storage.store import StoreChange, StoredObject

Filter = Callable[[str, int], bool]
"""Whether the watch of this kind loses the event of this revision."""


class CacheFeed:
    """The lists and the watch of one cache. For one thread."""

    def __init__(
        self,
        server: SimulatedServer,
        group: InformerGroup[Any],
        resource: Resource,
        decode: Decoder[Any],
        selection: Selection,
        *,
        loses: Filter,
    ) -> None:
        self.kind = resource.kind
        self._server = server
        self._type = server.type_of(resource)
        [self._informer] = group.informers
        self._decode = decode
        self._selector = parse_selector(self._type, selection.label_selector, selection.field_selector)
        self._loses = loses
        self._pending: deque[tuple[int, WatchEvent[Any]]] = deque()
        self.held = False
        """Whether events are late: none is shown while it is set."""
        self._unobserve: Callable[[], None] = lambda: None

    def start(self, revision: int) -> None:
        """List as a server does that has reached this revision, and watch what comes after it."""
        informer = self._informer
        informer._started = True
        for delivery in informer._deliveries:
            if delivery.resync_period > 0:
                delivery.next_resync = informer._clock.monotonic() + delivery.resync_period
        self._unobserve = self._server.store.observe(self._observe, self._type)
        self._list(revision)
        for change in self._server.store.changes_since(self._type, revision):
            self._observe(change)

    def stop(self) -> None:
        """Take no more changes from the server."""
        self._unobserve()

    @property
    def next_revision(self) -> float:
        """Return the revision of the next event that can be shown now; infinite if there is no such event."""
        return self._pending[0][0] if self._pending and not self.held else math.inf

    @property
    def due(self) -> float:
        """When the handlers get their next resync."""
        times = [delivery.next_resync for delivery in self._informer._deliveries if delivery.next_resync is not None]
        return min(times, default=math.inf)

    @property
    def wants_list(self) -> bool:
        """Whether the operator has asked for another list."""
        return self._informer._reflector._relist_wanted

    def list_again(self) -> None:
        """List the newest state, which needs no watch to catch up."""
        self._informer._reflector._relist_wanted = False
        self._pending.clear()
        self._list(self._server.store.revision)

    def show_next(self) -> None:
        """Show the next event, and call the handlers."""
        self._informer._process([self._pending.popleft()[1]])
        self._deliver()

    def resync(self) -> None:
        """Call the handlers whose resync is due."""
        self._informer._resync()
        self._deliver()

    def _list(self, revision: int) -> None:
        objects = self._server.store.objects_at(self._type, revision)
        items = [self._decode(stored.data) for stored in objects if self._selector.matches(stored.obj)]
        self._informer._process(Listed(items, str(revision)))
        self._deliver()

    def _deliver(self) -> None:
        deliver(self._informer)

    def _observe(self, change: StoreChange) -> None:
        before = change.old is not None and self._selector.matches(change.old.obj)
        after = change.new is not None and self._selector.matches(change.new.obj)
        if not before and not after:
            return
        stored = change.last
        if not after and change.new is not None and change.old is not None:
            stored = StoredObject(change.old.key, change.old.copy(), change.revision)
        kind = (WatchEventType.MODIFIED if before else WatchEventType.ADDED) if after else WatchEventType.DELETED
        if not self._loses(self.kind, change.revision):
            event = WatchEvent(kind, self._decode(stored.data), str(change.revision))
            self._pending.append((change.revision, event))


def deliver(informer: SharedInformer[Any]) -> None:
    """Call every handler with what waits for it."""
    for delivery in informer._deliveries:
        items = delivery._fifo._items
        while items:
            delivery._call(*items.popleft())
