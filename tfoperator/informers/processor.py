"""The handlers of one informer, and who of them is told what.

Not thread-safe by itself: the informer's lock guards it, since a change of the cache and its notifications are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from tfoperator.informers.delivery import Delivery, Notice, Notification
from tfoperator.kube.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)


def upserted(old: T | None, obj: T, *, initial: bool = False) -> Notification[T] | None:
    """What to tell when `obj` took the place of `old` in the cache; None where nothing changed."""
    if old is None:
        return Notification(Notice.INITIAL if initial else Notice.ADDED, obj)
    if old.metadata.resource_version != obj.metadata.resource_version:
        return Notification(Notice.UPDATED, obj, old)
    return None


class Processor(Generic[T]):
    """Distributes notifications to deliveries. Never blocks: a delivery's buffer takes everything."""

    def __init__(self) -> None:
        self._present: list[Delivery[T]] = []
        self._removed: list[Delivery[T]] = []  # no longer told anything, but their threads may still run

    @property
    def all(self) -> list[Delivery[T]]:
        """Every delivery whose thread may run."""
        return [*self._present, *self._removed]

    def add(self, delivery: Delivery[T]) -> None:
        """Tell it everything from now on."""
        self._present.append(delivery)

    def start(self) -> None:
        """Start every delivery."""
        for delivery in self._present:
            delivery.start()

    def remove(self, deliveries: Iterable[Delivery[T]]) -> None:
        """Tell them nothing any more; those that are not here are ignored."""
        leaving = [delivery for delivery in self._present if delivery in deliveries]
        self._present = [delivery for delivery in self._present if delivery not in leaving]
        self._removed = [delivery for delivery in self._removed if not delivery.join(0)] + leaving
        for delivery in leaving:
            delivery.close()

    def close(self) -> None:
        """End all of them, without waiting."""
        for delivery in self.all:
            delivery.close()

    def upstream_synced(self) -> None:
        """Every initial add has been distributed."""
        for delivery in self._present:
            delivery.upstream_synced()

    def tell(self, notifications: Sequence[Notification[T]]) -> None:
        """Tell everybody these, in this order."""
        if notifications:
            for delivery in self._present:
                delivery.push(notifications)

    def relisted(self, old: T | None, obj: T, *, initial: bool, resyncing: Iterable[Delivery[T]]) -> None:
        """`obj` took the place of `old` in the cache. Where nothing changed, only `resyncing` ones are told."""
        notification = upserted(old, obj, initial=initial)
        if notification is not None:
            self.tell([notification])
        else:
            self._tell_some(resyncing, Notification(Notice.UPDATED, obj, old))

    def resync(self, objects: Callable[[], Iterable[T]], now: float) -> None:
        """Tell those whose resync is due about every object; `objects` is called if somebody's is."""
        due = self.take_due(now)
        if due:
            for obj in objects():
                self._tell_some(due, Notification(Notice.UPDATED, obj, obj))

    def next_resync(self) -> float | None:
        """When the next resync is due, on the clock's `monotonic()`; None if nobody wants one."""
        return min((d.next_resync for d in self._present if d.next_resync is not None), default=None)

    def take_due(self, now: float) -> list[Delivery[T]]:
        """Those whose resync is due; their next one is set."""
        due = [d for d in self._present if d.next_resync is not None and d.next_resync <= now]
        for delivery in due:
            delivery.next_resync = now + delivery.resync_period
        return due

    @staticmethod
    def _tell_some(deliveries: Iterable[Delivery[T]], notification: Notification[T]) -> None:
        for delivery in deliveries:
            delivery.push([notification])
