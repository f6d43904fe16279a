"""What others may plug into an informer: the handlers that it tells, and optional abilities of what it reads from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from tfoperator.informers.fifo import Delta
from tfoperator.kube.objects import HasMetadata

T = TypeVar("T")
V = TypeVar("V", bound=HasMetadata)
T_contra = TypeVar("T_contra", contravariant=True)

Transform = Callable[[T], T]
"""Changes an object on its way into the cache, e.g. drops what nobody reads. Pure; it sees each object once."""


class ResourceEventHandler(Protocol[T_contra]):
    """Is told about every change of the cache, after the cache has changed.

    The calls of one registration come one at a time, from a thread of its own, in the order of the changes; a slow
    handler delays nobody but itself. The objects are those in the cache: read-only. What a call raises is logged,
    counted, and lost; the next call comes all the same.
    """

    def on_add(self, obj: T_contra, *, initial: bool) -> None:
        """An object is there. `initial`: it was there before this handler could see it come."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """An object changed, or this is a resync (same `resource_version`, then usually the same object).

        Compare UIDs: an object that was deleted and made anew while the watch was interrupted comes as one update.
        """
        ...

    def on_delete(self, obj: T_contra, *, final_state_unknown: bool) -> None:
        """An object is gone. `final_state_unknown`: the deletion was not seen, `obj` is the last state in the cache.

        May also come for an object that no call ever announced.
        """
        ...


class Sink(Protocol[V]):
    """Where a reflector delivers, from its one thread. A `DeltaFifo` is one."""

    def apply(self, deltas: Sequence[Delta[V]]) -> None:
        """These upserts and deletes happened, in this order."""
        ...

    def replace(self, objects: Sequence[V]) -> None:
        """The server holds exactly these objects."""
        ...


@runtime_checkable
class Cancellable(Protocol):
    """What a ListerWatcher may offer besides: ending a request that waits for its answer.

    Without it, stopping a reflector during such a request takes effect when the request ends, at the latest by the
    transport's own deadline.
    """

    def cancel(self) -> None:
        """Make requests under way and to come raise TransportError. Idempotent, thread-safe, does not block."""
        ...
