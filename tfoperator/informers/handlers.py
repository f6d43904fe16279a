"""The extension points of an informer: handlers, and hooks for metrics. It imports no metrics library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tfoperator.kube.measured_watch import ReflectorMetrics

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class ResourceEventHandler(Protocol[T_contra]):
    """Called for every change of the cache, after the cache has changed, and first for the existing objects.

    The calls of one registration come one at a time, from a thread of its own, in the order of the changes; a slow
    handler delays no other. The objects are those in the cache: read-only. An exception in a call is logged, counted,
    and dropped; the next call follows.
    """

    def on_add(self, obj: T_contra) -> None:
        """Handle a new object."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a changed object, or a resync (same `resource_version`, then usually the same object).

        Compare UIDs: an object that was deleted and recreated while the watch was interrupted comes as one update.
        """
        ...

    def on_delete(self, obj: T_contra) -> None:
        """Handle a deleted object: `obj` is its last state, or the last in the cache if no deletion was seen.

        May also be called for an object without an earlier call.
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
        """Call `changed`."""
        self._changed(obj)

    def on_update(self, old: T, new: T) -> None:  # noqa: ARG002 - the protocol's signature
        """Call `changed` with the new object."""
        self._changed(new)

    def on_delete(self, obj: T) -> None:
        """Call `gone`."""
        self._gone(obj)


class InformerMetrics(ReflectorMetrics):
    """Hooks that do nothing here; they show, too, whether the handlers keep up and whether one fails."""

    def store_size(self, informer: str, read: Callable[[], int]) -> None:
        """Receive `read`, once: it returns, at any time and from any thread, the number of objects in the cache.

        A reference to `read` keeps the cache alive.
        """

    def handler_backlog(self, informer: str, handler: str, read: Callable[[], int]) -> None:
        """Receive `read`, once per handler: it returns, from any thread, the number of pending calls."""

    def handler_failed(self, informer: str, handler: str) -> None:
        """Note that a handler raised; it misses that call, and continues with the next."""
