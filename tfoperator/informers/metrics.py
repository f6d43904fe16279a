"""What informers report about themselves, without this package knowing any metrics library.

The questions it answers: is the cache fresh (age of the last event), is the server coping (relists, failures,
durations), are the handlers keeping up (backlog), is one of them broken.
"""

from __future__ import annotations

from collections.abc import Callable


class InformerMetrics:
    """Hooks that do nothing here: override what you need.

    They are called from many threads and on hot paths: they must be quick and must not raise. `informer` is the
    informer's name, e.g. `pods`. Durations are seconds.
    """

    def list_finished(self, informer: str, seconds: float, items: int) -> None:
        """The cache was filled anew, by LIST or by a watch's initial events; the first time is the initial sync."""

    def list_failed(self, informer: str, reason: str) -> None:
        """A LIST failed; `reason` is the server's, or the name of the error's class (bounded in number)."""

    def watch_started(self, informer: str) -> None:
        """A server accepted a watch."""

    def watch_finished(self, informer: str, seconds: float, events: int) -> None:
        """A watch ended, for whatever reason, having delivered that many events (bookmarks included)."""

    def watch_failed(self, informer: str, reason: str) -> None:
        """A watch was refused or broke; `reason` as for `list_failed`."""

    def events_received(self, informer: str, event_type: str, count: int) -> None:
        """Watch events of a type (ADDED, MODIFIED, DELETED or BOOKMARK) arrived: the cache is as fresh as this moment.

        Called once for those of the type that came together.
        """

    def store_size(self, informer: str, read: Callable[[], int]) -> None:
        """Called once: `read` tells, at any time and from any thread, how many objects the cache holds.

        Whoever keeps `read` keeps the cache.
        """

    def handler_backlog(self, informer: str, handler: str, read: Callable[[], int]) -> None:
        """Called once per handler: `read` tells, from any thread, how many notifications wait for it."""

    def handler_failed(self, informer: str, handler: str) -> None:
        """A handler raised; its notification is lost to it, and it goes on with the next."""
