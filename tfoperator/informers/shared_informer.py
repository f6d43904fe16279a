"""A shared cache of one collection: one watch on the server, any number of handlers and readers.

The informer first changes the cache, and then calls the handlers. So if a handler reads the cache, it finds at least
the change for which it is called. Threads: the reflector's thread reads from the server, another thread changes the
cache, and each handler has its own thread.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.informers.delivery import (
    Delivery,
    Fifo,
    FifoClosed,
    InformerMetrics,
    Notification,
    ResourceEventHandler,
)
from tfoperator.informers.store import Indexer, IndexFunction, Lister
from tfoperator.kube.protocol.verbs import ListWatch, WatchEvent, WatchEventType
from tfoperator.kube.views.objects import HasMetadata
from tfoperator.kube.watching.reflector import Listed, News, Reflector, version_after

T = TypeVar("T", bound=HasMetadata)

logger = logging.getLogger(__name__)

MIN_RESYNC_PERIOD = 1.0
"""The minimum resync period in seconds. A shorter period is raised to this value, except 0, which means no resync."""


class InformerStopped(RuntimeError):
    """The caller tried to add a handler to an informer that has been stopped."""


class SharedInformer(Generic[T]):
    """Mirrors one collection and calls handlers, from `start()` to `stop()`. It can't be started again after `stop()`.

    All methods are thread-safe; `stop` may be called from a handler.
    """

    def __init__(
        self,
        list_watch: ListWatch[T],
        *,
        name: str,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        """Initialize. Logs, thread names and metrics contain `name`."""
        self.name = name
        self._clock = clock or SystemClock()
        self._metrics = metrics or InformerMetrics()
        self.indexer: Indexer[T] = Indexer(indexers)
        """The cache. Only the informer writes to it."""
        self.lister = Lister(self.indexer)
        self._fifo: Fifo[News[T]] = Fifo(clock=self._clock)
        self._reflector = Reflector(list_watch, name=name, clock=self._clock, rng=rng, metrics=self._metrics)
        self._threads = [
            threading.Thread(target=self._reflect, name=f"informer {name}: reflector", daemon=True),
            threading.Thread(target=self._process_news, name=f"informer {name}: cache", daemon=True),
        ]
        # Guards the cache and the handlers together: a handler can't join between a change of the cache and the
        # notification of it. Also guards the fields below. Code that holds it only changes memory and notifies waiting
        # threads.
        self._state = threading.Condition()
        self._deliveries: list[Delivery[T]] = []
        self._synced = False
        self._version = ""
        self._started = False
        self._stopped = False
        self._failure: Exception | None = None
        self._metrics.store_size(name, self.indexer.__len__)

    # --- reading

    @property
    def has_synced(self) -> bool:
        """Whether the cache shows at least the state that the server had when the informer started.

        It is False after a failure.
        """
        return self._synced and self._failure is None

    @property
    def failure(self) -> Exception | None:
        """The error that stopped the cache, if there is one: an index function has raised an exception.

        Responses of the server never cause such an error.
        """
        return self._failure

    @property
    def started(self) -> bool:
        """Whether `start()` has been called."""
        return self._started

    @property
    def last_sync_resource_version(self) -> str:
        """The resource version that the cache has reached, also by bookmarks.

        Since 1.35 client-go's stores report this version in the same manner. The version is empty before the first
        list. Calls of handlers for changes up to this version may still be pending. The reflector may have read a later
        version.
        """
        return self._version

    # --- handlers

    def add_handler(self, handler: ResourceEventHandler[T], *, resync_period: float = 0, name: str = "") -> None:
        """Call `handler` for every change from now on. First call it with an add for each existing object.

        Every `resync_period` seconds (0: never) `handler` gets an update for every object. The old and the new object
        of this update are the same. A `resync_period` between 0 and MIN_RESYNC_PERIOD is raised to MIN_RESYNC_PERIOD.
        Raises InformerStopped after `stop()`.
        """
        if 0 < resync_period < MIN_RESYNC_PERIOD:
            logger.warning(
                "%s: resync period of %s s is too short, and is raised to %s s",
                self.name,
                resync_period,
                MIN_RESYNC_PERIOD,
            )
            resync_period = MIN_RESYNC_PERIOD
        with self._state:
            if self._stopped:
                raise InformerStopped(f"informer {self.name} has been stopped, so it takes no more handlers")
            delivery = Delivery(
                handler,
                informer=self.name,
                name=name or f"{type(handler).__name__}-{len(self._deliveries) + 1}",
                resync_period=resync_period,
                clock=self._clock,
                metrics=self._metrics,
            )
            if self._started:
                delivery.push([(None, obj) for obj in self.indexer.list()])
                delivery.start()
            self._deliveries.append(delivery)
        self._fifo.poke()  # the handler's resync may be due before the resync that the cache thread waits for

    # --- lifecycle

    def start(self) -> None:
        """Start to follow the changes on the server.

        A second start, or a start after `stop()`, does nothing except log a warning.
        """
        with self._state:
            if self._started or self._stopped:
                logger.warning("%s: informer was already %s", self.name, "stopped" if self._stopped else "started")
                return
            self._started = True
            for delivery in self._deliveries:
                delivery.start()
            for thread in self._threads:
                thread.start()

    def signal_stop(self) -> None:
        """Tell the informer to stop, without waiting.

        Close the watch, end all waits, and drop the pending calls of handlers.
        """
        with self._state:
            self._stopped = True
            for delivery in self._deliveries:
                delivery.close()
            self._state.notify_all()
        self._reflector.stop()
        self._fifo.close()

    def stop(self, timeout: float = 10) -> bool:
        """Stop, and wait up to `timeout` real seconds until every thread has ended. Idempotent.

        Returns False if a thread is still busy, because a handler does not return, or because the transport can't
        cancel a request.
        """
        self.signal_stop()
        deadline = time.monotonic() + timeout
        with self._state:
            threads = [*self._threads] if self._started else []
            deliveries = [*self._deliveries]
        ended = True
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0))
                ended = ended and not thread.is_alive()
        for delivery in deliveries:
            ended = delivery.join(deadline - time.monotonic()) and ended
        if not ended:
            logger.warning("%s: informer did not stop within %s s", self.name, timeout)
        return ended

    def relist(self) -> None:
        """Make the informer read everything from the server again, soon.

        Call this if the cache has missed a change. The call does not block.
        """
        self._reflector.relist()

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait until `has_synced`, for at most `timeout` seconds of the clock (None: no limit).

        Return the value of `has_synced`. The call returns earlier if the informer is stopped or has failed.
        """
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        with self._state:
            while not self._synced and not self._stopped and self._failure is None:
                if not self._clock.wait_until(self._state, deadline):
                    break
        return self.has_synced

    # --- the thread that reads the server

    def _reflect(self) -> None:
        for news in self._reflector:
            self._fifo.push([news])

    # --- the cache thread

    def _process_news(self) -> None:
        try:
            due = self._resync()
            while True:
                news = self._fifo.pop(due)
                if news is not None:
                    self._process(news)
                if news is None or (due is not None and due <= self._clock.monotonic()):
                    due = self._resync()
        except FifoClosed:
            return
        except Exception as error:
            # If the thread continued, the cache would never show the object that can't be indexed: a failure is better,
            # because health checks show it.
            logger.critical("%s: the cache is no longer updated: %s", self.name, error, exc_info=True)
            self._reflector.stop()
            self._fifo.close()
            with self._state:
                self._failure = error
                self._state.notify_all()

    def _process(self, news: News[T]) -> None:
        with self._state:
            if isinstance(news, Listed):
                self._replace(news.objects)
                self._version = news.version
                self._synced = True
                self._state.notify_all()
            else:
                self._apply(news)
                self._version = version_after(news) or self._version

    def _apply(self, events: Sequence[WatchEvent[T]]) -> None:
        notifications: list[Notification[T]] = []
        try:
            for event in events:
                obj = event.object
                if obj is None:
                    continue
                if event.type is WatchEventType.DELETED:
                    self.indexer.delete(obj.metadata.key)
                    notifications.append((obj, None))
                    continue
                old = self.indexer.add(obj)
                if _is_change(old, obj):
                    notifications.append((old, obj))
        finally:
            # This also runs if an index function raises an error: handlers receive every change that the cache shows.
            for delivery in self._deliveries:
                delivery.push(notifications)

    def _replace(self, objects: Sequence[T]) -> None:
        before = self.indexer.replace(objects)
        now = self.indexer.list()
        gone = before.keys() - {obj.metadata.key for obj in now}
        deleted: list[Notification[T]] = [(obj, None) for key, obj in before.items() if key in gone]
        shown: list[Notification[T]] = [(before.get(obj.metadata.key), obj) for obj in now]
        changes = [*deleted, *(notification for notification in shown if _is_change(*notification))]
        # A list calls the handlers with every object, so it replaces a resync that is due.
        due = self._take_due()
        for delivery in self._deliveries:
            delivery.push([*deleted, *shown] if delivery in due else changes)

    def _resync(self) -> float | None:
        """Resync all handlers that have reached their resync time.

        Return the earliest time at which a handler must be resynced next. Return None if no handler has a resync
        period.
        """
        # A resync shows the cache of this moment, in order with the changes: so it never shows an older state after a
        # newer state.
        with self._state:
            due = self._take_due()
            everything: list[Notification[T]] = [(obj, obj) for obj in self.indexer.list()] if due else []
            for delivery in due:
                delivery.push(everything)
            return min(
                (delivery.next_resync for delivery in self._deliveries if delivery.next_resync is not None),
                default=None,
            )

    def _take_due(self) -> list[Delivery[T]]:
        """Return the deliveries that have reached their resync time, and set the time of their next resync."""
        now = self._clock.monotonic()
        due = [
            delivery
            for delivery in self._deliveries
            if delivery.next_resync is not None and delivery.next_resync <= now
        ]
        for delivery in due:
            delivery.next_resync = now + delivery.resync_period
        return due


def _is_change(old: T | None, new: T | None) -> bool:
    return old is None or new is None or old.metadata.resource_version != new.metadata.resource_version
