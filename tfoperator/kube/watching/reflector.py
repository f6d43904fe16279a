"""Lists a collection of the API server, then watches it without end. Every cache and every `Follower` uses a reflector.

Like client-go's reflector, a reflector misses no change: every watch starts at the version that the reflector has
reached. If a watch can't start at this version (expired version, unknown error), the reflector reads the whole state
again. After every failure the reflector waits for a time with jitter, so many reflectors can't overload a server that
has just started.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.kube.protocol.errors import (
    AnswerTooLarge,
    ConnectionRefused,
    KubeError,
    SilentWatch,
    TooManyRequestsError,
    TransportError,
    is_expired,
    is_unavailable_version,
)
from tfoperator.kube.protocol.options import WatchOptions
from tfoperator.kube.protocol.retry import FailureBackoff
from tfoperator.kube.protocol.verbs import ListWatch, WatchEvent
from tfoperator.kube.views.objects import HasMetadata
from tfoperator.kube.watching.listing import list_all
from tfoperator.kube.watching.measured_watch import MeasuredWatch, ReflectorMetrics, reason_of

T = TypeVar("T", bound=HasMetadata)
logger = logging.getLogger(__name__)

MIN_WATCH_TIMEOUT = 300
"""Seconds. Each watch requests a duration between this value and twice this value, so the watches don't all end at the
same time.
"""

_HEALTHY_WATCH_SECONDS = 10.0
"""Seconds. If a watch lasted longer than this, there is no outage, even if the watch ended with an error. Load
balancers cut idle watches, often within a minute. If the reflector waited 8 s after each such cut, the cache would show
every change too late.
"""

_OVERLOAD_ERRORS = (ConnectionRefused, TooManyRequestsError)
"""Errors of an overloaded or starting server. The reflector repeats the same request."""


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """The whole state of a collection: at this version, the server has exactly these objects."""

    objects: Sequence[T]
    version: str


News = Listed[T] | Sequence[WatchEvent[T]]
"""The whole state, or events (bookmarks included) of one batch, in order."""


def version_after(events: Sequence[WatchEvent[T]]) -> str:
    """Return the version of the collection after these events. There must be at least one event."""
    last = events[-1]
    return last.resource_version if last.object is None else last.object.metadata.resource_version


class _FruitlessWatch(KubeError):
    """A watch ended at once and without events.

    The reflector waits before the next watch: otherwise it would open watches without a pause.
    """


class Reflector(Generic[T]):
    """Yields the whole state of a collection (`Listed`), then its changes. One thread iterates over it, once.

    If the reflector can't continue from the last version, it yields a new `Listed`. Any thread may end the iteration by
    `stop()`. Errors of the server don't end the iteration, unless `on_failure` raises an exception.
    """

    def __init__(
        self,
        list_watch: ListWatch[T],
        *,
        name: str,
        newest: bool = False,
        use_watch_list: bool = True,
        on_failure: Callable[[Exception, float], None] | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        metrics: ReflectorMetrics | None = None,
    ) -> None:
        """`name` is used in logs and metrics.

        The reflector reads the whole state from the initial events of a watch. If `use_watch_list` is False, or if
        `newest` is set, it uses a LIST instead. With `newest`, a list is at least as new as the server's state at the
        time of the request. Such a list costs the server more. `on_failure` gets the error and the seconds until the
        next attempt (by default both are logged).
        """
        self._list_watch = list_watch
        self._name = name
        self._newest = newest
        self._use_watch_list = use_watch_list and not newest
        self._on_failure = on_failure or self._log
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._metrics = metrics or ReflectorMetrics()
        self._backoff = FailureBackoff(clock=self._clock, rng=self._rng)
        self._last_version = ""  # up to which the iterating thread has read everything; empty before the first list
        self._version_unavailable = False
        self._server_pages_from_cache = False
        self._stop = StopSignal()
        # Guards the fields below: a watch that is opened just as stop() or relist() comes must be closed.
        self._watch_lock = threading.Lock()
        self._watch: MeasuredWatch[T] | None = None
        self._relist_wanted = False
        self._reads_newest = False  # whether a list, or initial events, of the newest state are being read

    def stop(self) -> None:
        """End the iteration soon: close the watch's socket, and end waits early.

        Idempotent, thread-safe, never blocks.
        """
        self._stop.set()
        self._close_watch()
        self._list_watch.cancel()

    def relist(self) -> None:
        """Read the newest state soon, because the watch has missed a change. Thread-safe. It does not block.

        If the newest state is already being read, this read continues, and the call starts no new list. Otherwise
        frequent calls could restart a long list again and again, and the list would never end.
        """
        with self._watch_lock:
            if self._reads_newest:
                return
            self._relist_wanted = True
        self._close_watch()

    def __iter__(self) -> Iterator[News[T]]:
        """Yield the whole state, then the changes."""
        while not self._stop.is_set():
            try:
                yield from self._list_and_watch()
            except KubeError as error:
                self._pause(error)
            except Exception as error:  # a cache must stay current after any error
                logger.exception("%s: unexpected error while following the server", self._name)
                self._pause(error)

    def _list_and_watch(self) -> Generator[News[T], None, None]:
        """Run one cycle: read the state, then watch it.

        Return after `stop()`, or if a relist was requested. Raises the errors after which the caller must wait, and
        then run another cycle.
        """
        try:
            watch = (yield from self._initial_events()) if self._use_watch_list else None
            if watch is None and not self._stop.is_set():
                yield from self._list()
            yield from self._follow(watch)
        finally:
            self._read(newest=False)
            self._forget_watch()

    def _read(self, *, newest: bool) -> None:
        with self._watch_lock:
            self._reads_newest = newest

    def _follow(self, watch: MeasuredWatch[T] | None) -> Generator[News[T], None, None]:
        while not self._interrupted():
            ended: KubeError | None = None
            try:
                if watch is None:
                    watch = self._open_watch(self._last_version)
                for events in watch.batches:
                    yield from self._reach(events)
            except KubeError as error:
                ended = error
            fruitless = watch is None or watch.fruitless
            if watch is not None and watch.age >= _HEALTHY_WATCH_SECONDS:
                self._backoff.forget_outage()
            watch = None
            self._forget_watch()
            if self._interrupted():
                return
            if ended is None:
                if fruitless:
                    raise _FruitlessWatch(f"the watch of {self._name} ended at once without an event")
                continue
            if not isinstance(ended, _OVERLOAD_ERRORS) and (fruitless or not isinstance(ended, TransportError)):
                # An undecodable event may break a watch at its start, and then the next watch, too.
                raise ended
            # The watch has missed no event so far: the same version still works, and a list may overload the server.
            self._pause(ended)

    def _reach(self, events: Sequence[WatchEvent[T]]) -> Iterator[Sequence[WatchEvent[T]]]:
        if not events:
            return
        yield events
        self._last_version = version_after(events) or self._last_version

    def _interrupted(self) -> bool:
        return self._stop.is_set() or self._relist_wanted

    def _take_relist_request(self) -> None:
        with self._watch_lock:
            if self._relist_wanted and self._last_version:
                # Don't list at the last version: the server may answer from the watch cache that missed an event.
                self._version_unavailable = True
            self._relist_wanted = False

    def _list(self) -> Generator[News[T], None, None]:
        while True:
            self._take_relist_request()
            version = "" if self._version_unavailable or self._newest else self._last_version or "0"
            self._read(newest=not version)
            # A limit would make a server read etcd instead of its watch cache, except at versions "0" and "".
            limit = None if self._server_pages_from_cache or version in ("", "0") else 0
            started = self._clock.monotonic()
            try:
                listing = list_all(self._list_watch, resource_version=version, limit=limit)
                break
            except KubeError as error:
                self._metrics.list_failed(self._name, reason_of(error))
                if not version or not (is_unavailable_version(error) or isinstance(error, AnswerTooLarge)):
                    raise
                # "" asks for the newest state, which is always available and comes in pages. At a version the server
                # answers in one piece, from its watch cache.
                logger.info("%s: no list at version %s (%s), so the newest state is listed", self._name, version, error)
                self._version_unavailable = True
        if listing.paged and version == "0":
            # Only a server without a watch cache uses pages at version 0: its lists may always have pages.
            self._server_pages_from_cache = True
        yield from self._fill(listing.items, listing.resource_version, started)

    def _initial_events(self) -> Generator[News[T], None, MeasuredWatch[T] | None]:
        """Read the whole state from a watch's initial events.

        Return this watch, so the caller can continue with it. Return None if the caller must use LIST instead.
        """
        broken = False  # a watch before its initial events were complete
        while not self._stop.is_set():
            self._take_relist_request()
            version = "" if self._version_unavailable else self._last_version
            self._read(newest=not version)
            started = self._clock.monotonic()
            try:
                watch = self._open_watch(version, initial_events=True)
                initial = watch.initial_state()
                if initial is not None:
                    yield from self._fill(initial.objects, initial.resource_version, started)
                    yield from self._reach(initial.rest)
                    return watch
                error: KubeError = TransportError(
                    f"the watch of {self._name} ended before its initial events were complete"
                )
            except KubeError as failure:
                error = failure
            self._forget_watch()
            if self._interrupted():
                continue
            if isinstance(error, _OVERLOAD_ERRORS):
                self._pause(error)
            elif version and is_unavailable_version(error):
                self._version_unavailable = True
            elif isinstance(error, TransportError) and not broken:
                broken = True
                self._pause(error)
            else:
                # A list always works. The next cycle requests initial events again, because the server may have been
                # upgraded by then.
                logger.info("%s: the watch sends no initial events (%s), so LIST is used", self._name, error)
                return None
        return None

    def _fill(self, objects: list[T], version: str, started: float) -> Iterator[Listed[T]]:
        yield Listed(objects, version)
        self._last_version = version
        self._version_unavailable = False
        self._read(newest=False)
        self._metrics.list_finished(self._name, self._clock.monotonic() - started, len(objects))
        logger.debug("%s: %d objects at version %s", self._name, len(objects), version)

    def _open_watch(self, version: str, *, initial_events: bool = False) -> MeasuredWatch[T]:
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
            self._metrics.watch_failed(self._name, reason_of(error))
            raise
        watch = MeasuredWatch(stream, name=self._name, clock=self._clock, metrics=self._metrics)
        with self._watch_lock:
            self._watch = watch
        if self._interrupted():
            watch.close()  # stop() or relist() may have looked before there was a watch to close
        return watch

    def _close_watch(self) -> None:
        with self._watch_lock:
            watch = self._watch
        if watch is not None:
            watch.close()

    def _forget_watch(self) -> None:
        with self._watch_lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.finish()

    def _pause(self, error: Exception) -> None:
        """Wait before the next attempt.

        The time depends on the kind of the error and on the `Retry-After` of the response (see `FailureBackoff`).
        `stop()` ends the wait.
        """
        if self._stop.is_set():
            return
        delay = self._backoff.after(error)
        self._on_failure(error, delay)
        self._stop.wait(self._clock, delay)

    def _log(self, error: Exception, delay: float) -> None:
        # These two errors are normal: versions expire, and a quiet collection has nothing to send.
        level = logging.INFO if is_expired(error) or isinstance(error, SilentWatch) else logging.WARNING
        logger.log(level, "%s: %s; next attempt in %.1f s", self._name, error, delay)
