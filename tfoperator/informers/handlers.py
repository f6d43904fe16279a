"""What others may plug into an informer: handlers, and hooks for metrics. It knows no metrics library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tfoperator.kube.measured_watch import ReflectorMetrics

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class ResourceEventHandler(Protocol[T_contra]):
    """Is called for every change of the cache, after the cache has changed, and first for what is there already.

    The calls of one registration come one at a time, from a thread of its own, in the order of the changes; a slow
    handler delays no other. The objects are those in the cache: read-only. What a call raises is logged, counted, and
    lost; the next call comes all the same.
    """

    def on_add(self, obj: T_contra) -> None:
        """An object is there."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """An object changed, or this is a resync (same `resource_version`, then usually the same object).

        Compare UIDs: an object that was deleted and made again while the watch was interrupted comes as one update.
        """
        ...

    def on_delete(self, obj: T_contra) -> None:
        """An object is gone. `obj` is its last state, or the last in the cache if the deletion was not seen.

        May also come for an object that no call ever announced.
        """
        ...


class Callbacks(Generic[T]):
    """A `ResourceEventHandler` that calls `changed` for each object added or updated, `gone` for each deleted."""

    def __init__(
        self, *, changed: Callable[[T], object] = lambda _: None, gone: Callable[[T], object] = lambda _: None
    ) -> None:
        self._changed = changed
        self._gone = gone

    def on_add(self, obj: T) -> None:
        """An object is there."""
        self._changed(obj)

    def on_update(self, old: T, new: T) -> None:  # noqa: ARG002 - the protocol's signature
        """An object has changed."""
        self._changed(new)

    def on_delete(self, obj: T) -> None:
        """An object is gone."""
        self._gone(obj)


class InformerMetrics(ReflectorMetrics):
    """Hooks that do nothing here; two more questions: are the handlers keeping up, is one of them broken."""

    def store_size(self, informer: str, read: Callable[[], int]) -> None:
        """Called once: `read` returns, at any time and from any thread, how many objects the cache holds.

        As long as `read` is kept, so is the cache.
        """

    def handler_backlog(self, informer: str, handler: str, read: Callable[[], int]) -> None:
        """Called once per handler: `read` returns, from any thread, how many calls wait for it."""

    def handler_failed(self, informer: str, handler: str) -> None:
        """A handler raised; that call is lost to it, and it goes on with the next."""
