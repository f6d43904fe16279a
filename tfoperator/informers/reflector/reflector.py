"""Keeps a sink equal to a collection on the API server: fills it, then follows the changes, for ever.

The reflector's promise is that nothing is missed: every watch starts at the version that the sink has reached, and
whenever continuity can't be had (expired version, strange error) the whole state is read again. No error ends it;
every way of failing ends in a jittered wait, so that many reflectors can't overload a server that is just starting.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterable
from typing import Generic, TypeVar

from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.informers.fifo import Delta, DeltaType
from tfoperator.informers.metrics import InformerMetrics
from tfoperator.informers.protocols import Cancellable, Sink, Transform
from tfoperator.informers.reflector.backoff import ANSWERED_CAP, LONGEST_WISH, OUTAGE_CAP, Backoff
from tfoperator.informers.reflector.pager import list_all
from tfoperator.informers.reflector.refusals import is_expired, is_outage, is_too_large_resource_version, is_unsupported
from tfoperator.informers.reflector.watching import Watch
from tfoperator.kube.errors import (
    AnswerTooLarge,
    ApiError,
    ConnectionRefused,
    KubeError,
    TooManyRequestsError,
    TransportError,
)
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.options import WatchOptions
from tfoperator.kube.verbs import ListerWatcher, WatchEvent, WatchEventType

T = TypeVar("T", bound=HasMetadata)
logger = logging.getLogger(__name__)

PAGE_SIZE = 500
MIN_WATCH_TIMEOUT = 300
"""Seconds; a watch is asked to last between this and twice this, so that watches don't all end at once."""

_HELD = 10.0
"""Seconds. A watch that lasted longer shows that no outage goes on, however it ended: load balancers cut those in which
nothing happens, often within a minute, and a cache that is blind for 8 s after each is late for all that happens."""

_UNFINISHED_LIMIT = 2
"""So many streams that break off in a row before their initial events are complete send the reflector to LIST."""


class _FruitlessWatch(KubeError):
    """A watch ended at once and empty, which would otherwise be repeated in a tight loop."""


class Reflector(Generic[T]):
    """Mirrors one collection into a sink. `run()` in one thread, `stop()` from any."""

    def __init__(
        self,
        list_watch: ListerWatcher[T],
        sink: Sink[T],
        *,
        name: str,
        transform: Transform[T] | None = None,
        page_size: int = PAGE_SIZE,
        use_watch_list: bool = True,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        """`page_size` 0 never pages. `use_watch_list` False goes straight to LIST."""
        self._list_watch = list_watch
        self._sink = sink
        self._name = name
        self._transform = transform
        self._page_size = page_size
        self._use_watch_list = use_watch_list
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._metrics = metrics or InformerMetrics()
        # Counted apart: a server that comes back from an outage and turns the first requests down (403 before its
        # roles are loaded, 429) is not made to wait for what the outage has run up.
        self._outage_backoff = Backoff(cap=OUTAGE_CAP, clock=self._clock, rng=self._rng)
        self._answered_backoff = Backoff(cap=ANSWERED_CAP, clock=self._clock, rng=self._rng)
        self._last_version = ""
        self._version_unavailable = False
        self._server_pages_from_cache = False
        self._stop = StopSignal()
        # Guards the fields below: a watch that is opened just as stop() or relist() comes must not live on.
        self._watch_lock = threading.Lock()
        self._watch: Watch[T] | None = None
        self._relist_wanted = False

    @property
    def last_sync_resource_version(self) -> str:
        """The version up to which everything has been handed to the sink; empty before the first list."""
        return self._last_version

    def run(self) -> None:
        """Fill the sink and follow the server until `stop()`. Raises nothing that a server can cause."""
        while not self._stop.is_set():
            try:
                self._list_and_watch()
            except KubeError as error:
                self._pause(error)
            except Exception as error:  # nothing may end the thread that keeps the cache true
                if not self._stop.is_set():
                    logger.exception("%s: unexpected error while following the server", self._name)
                self._pause(error)

    def stop(self) -> None:
        """End `run()` soon: closes the watch's socket, cuts waits short. Idempotent, thread-safe, does not block."""
        self._stop.set()
        with self._watch_lock:
            watch = self._watch
        if watch is not None:
            watch.close()
        if isinstance(self._list_watch, Cancellable):
            self._list_watch.cancel()

    def relist(self) -> None:
        """Read the newest state anew, as soon as may be: for whoever knows that the watch has missed a change.

        Thread-safe, does not block; does nothing before `run()`, which begins with that anyway.
        """
        with self._watch_lock:
            self._relist_wanted = True
            watch = self._watch
        if watch is not None:
            watch.close()

    # --- the cycle: fill, then watch until that fails

    def _list_and_watch(self) -> None:
        """One cycle. Returns when stopped or told to relist; raises whatever calls for another cycle after a wait."""
        try:
            watch = self._fill_by_watch() if self._use_watch_list else None
            if watch is None:
                self._fill_by_list()
            self._follow(watch)
        finally:
            self._forget_watch()

    def _follow(self, watch: Watch[T] | None) -> None:
        while not self._interrupted():
            if watch is None:
                try:
                    watch = self._open_watch(self._last_version)
                except (ConnectionRefused, TooManyRequestsError) as error:
                    # Nothing was missed yet: the same version will do, and a list would be too much for a server
                    # that is overloaded or just starting.
                    self._pause(error)
                    continue
            ended = self._drain(watch)
            fruitless = watch.fruitless
            if watch.age >= _HELD:
                self._outage_backoff.forget()
            watch = None
            self._forget_watch()
            if self._interrupted():
                return
            if ended is None:
                if fruitless:
                    raise _FruitlessWatch(f"watch of {self._name} ended at once without an event")
            elif isinstance(ended, TooManyRequestsError) or (isinstance(ended, TransportError) and not fruitless):
                # A broken watch goes on at the same version too, unless it broke at the very start: that may be an
                # event which can't be read, and would break the next watch at the same place.
                self._pause(ended)
            else:
                raise ended

    def _interrupted(self) -> bool:
        return self._stop.is_set() or self._relist_wanted

    def _drain(self, watch: Watch[T]) -> KubeError | None:
        """Apply a watch's events until it ends; returns what ended it, None for a clean end."""
        try:
            for events in watch:
                self._apply(events)
        except KubeError as error:
            return error
        return None

    def _apply(self, events: Iterable[WatchEvent[T]]) -> None:
        deltas: list[Delta[T]] = []
        version = self._last_version
        try:
            for event in events:
                if event.type is WatchEventType.BOOKMARK:
                    version = event.resource_version or version
                    continue
                obj = event.object
                if not isinstance(obj, HasMetadata):
                    what = type(obj).__name__
                    logger.warning("%s: skipped a %s event with %s for an object", self._name, event.type, what)
                    continue
                reached = obj.metadata.resource_version
                if self._transform is not None:
                    obj = self._transform(obj)
                kind = DeltaType.DELETED if event.type is WatchEventType.DELETED else DeltaType.UPSERTED
                deltas.append(Delta(kind, (obj,)))
                version = reached or version
        finally:
            # Also if a transform raises: the sink gets what came before.
            self._sink.apply(deltas)
            self._last_version = version

    # --- filling

    def _take_relist_request(self) -> None:
        with self._watch_lock:
            if self._relist_wanted and self._last_version:
                # Not at the last version: the server may answer that from the very cache that missed something.
                self._version_unavailable = True
            self._relist_wanted = False

    def _fill_by_list(self) -> None:
        self._take_relist_request()
        version = self._relist_version()
        started = self._clock.monotonic()
        try:
            listing = list_all(
                self._list_watch,
                resource_version=version,
                limit=self._page_size_for(version),
                stopped=self._stop.is_set,
            )
        except ApiError as error:
            self._metrics.list_failed(self._name, _reason(error))
            if not (is_expired(error) or is_too_large_resource_version(error)) or not version:
                raise
            # "" asks for the newest state, whatever the version: always possible, so tried at once.
            logger.info("%s: version %s is not to be had (%s), listing the newest state", self._name, version, error)
            self._version_unavailable = True
            return self._fill_by_list()
        except TransportError as error:
            self._metrics.list_failed(self._name, _reason(error))
            if not isinstance(error, AnswerTooLarge) or not version:
                raise
            # At a version the server answers in one piece, from its watch cache. The newest state comes in pages.
            logger.info("%s: %s, listing in pages", self._name, error)
            self._version_unavailable = True
            return self._fill_by_list()
        if listing is None:
            return None
        if listing.paged and version == "0":
            # Only a server without watch cache pages at version 0: there, lists may as well be paged always.
            self._server_pages_from_cache = True
        transform = self._transform
        objects = listing.items if transform is None else [transform(obj) for obj in listing.items]
        return self._fill(objects, listing.resource_version, started)

    def _relist_version(self) -> str:
        if self._version_unavailable:
            return ""
        return self._last_version or "0"

    def _page_size_for(self, version: str) -> int:
        """A limit would make a server read etcd instead of its watch cache, save at versions "0" and ""."""
        if self._server_pages_from_cache or version in ("", "0"):
            return self._page_size
        return 0

    def _fill_by_watch(self) -> Watch[T] | None:
        """Fill the sink from a watch's initial events. Returns that watch, to go on with; None to use LIST instead."""
        unfinished = 0
        while not self._stop.is_set():
            self._take_relist_request()
            version = "" if self._version_unavailable else self._last_version
            started = self._clock.monotonic()
            try:
                watch = self._open_watch(version, initial_events=True)
                if self._collect(watch, started):
                    return watch
                error: KubeError = TransportError(f"watch of {self._name} ended before its initial events did")
            except KubeError as failure:
                error = failure
            self._forget_watch()
            if self._interrupted():
                continue
            if isinstance(error, ConnectionRefused | TooManyRequestsError):
                self._pause(error)
            elif version and (is_expired(error) or is_too_large_resource_version(error)):
                self._version_unavailable = True
            elif isinstance(error, TransportError) and unfinished + 1 < _UNFINISHED_LIMIT:
                unfinished += 1
                self._pause(error)
            else:
                # A list always works, so this does not try the watch for ever.
                if is_unsupported(error):
                    self._use_watch_list = False
                logger.info("%s: no initial events by watch (%s), using LIST", self._name, error)
                return None
        return None

    def _collect(self, watch: Watch[T], started: float) -> bool:
        """Gather initial events until the bookmark that ends them, then fill. False if the watch ended before."""
        state: dict[str, T] = {}
        for batch in watch:
            events = iter(batch)
            for event in events:
                if event.type is WatchEventType.BOOKMARK:
                    if event.initial_events_end:
                        self._fill(list(state.values()), event.resource_version, started)
                        self._apply(events)  # what has come behind it
                        return True
                elif isinstance(obj := event.object, HasMetadata):
                    if self._transform is not None:
                        obj = self._transform(obj)
                    if event.type is WatchEventType.DELETED:
                        state.pop(obj.metadata.key, None)
                    else:
                        state[obj.metadata.key] = obj
        return False

    def _fill(self, objects: list[T], version: str, started: float) -> None:
        self._sink.replace(objects)
        self._last_version = version
        self._version_unavailable = False
        self._metrics.list_finished(self._name, self._clock.monotonic() - started, len(objects))
        logger.debug("%s: %d objects at version %s", self._name, len(objects), version)

    # --- opening, closing, waiting

    def _open_watch(self, version: str, *, initial_events: bool = False) -> Watch[T]:
        try:
            stream = self._list_watch.watch(
                WatchOptions(
                    resource_version=version,
                    resource_version_match="NotOlderThan" if initial_events else "",
                    timeout_seconds=int(MIN_WATCH_TIMEOUT * (1.0 + self._rng.random())),
                    send_initial_events=True if initial_events else None,
                )
            )
        except KubeError as error:
            self._metrics.watch_failed(self._name, _reason(error))
            raise
        watch = Watch(stream, name=self._name, clock=self._clock, metrics=self._metrics)
        with self._watch_lock:
            self._watch = watch
            unwanted = self._interrupted()
        if unwanted:
            watch.close()  # stop() or relist() may have looked before there was a watch to close
        return watch

    def _forget_watch(self) -> None:
        with self._watch_lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.finish()

    def _pause(self, error: Exception) -> None:
        """Wait before the next attempt, for as long as the kind of failure (and the server) asks; stop() cuts it."""
        if self._stop.is_set():
            return
        backoff = self._outage_backoff if is_outage(error) else self._answered_backoff
        delay = backoff.next()
        if isinstance(error, ApiError) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, LONGEST_WISH))
        level = logging.INFO if is_expired(error) else logging.WARNING
        logger.log(level, "%s: %s; next attempt in %.1f s", self._name, error, delay)
        self._stop.wait(self._clock, delay)


def _reason(error: KubeError) -> str:
    return (error.reason if isinstance(error, ApiError) else "") or type(error).__name__
