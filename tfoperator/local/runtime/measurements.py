"""What containers have used, as a runtime measures it, and the most memory that each of them ever had."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import msgspec
from cachetools import LRUCache

_REMEMBERED = 10_000
"""Containers whose peaks are kept; a control plane that stays up for months forgets the others."""


class ContainerName(msgspec.Struct, frozen=True):
    """Which container of which pod. Attempts of a container, and pods of one name after each other, share it."""

    namespace: str
    pod: str
    container: str


class Measurement(msgspec.Struct, frozen=True):
    """What one attempt of a container has used so far, all of its processes together.

    `attempt` tells attempts of a container apart. `cpu_seconds` counts from its start and includes children that have
    ended; `memory` is in bytes, now. For processes it is their resident memory, in which pages that several of them
    share count for each; for Docker it is the control group's, without page cache that can be dropped at once.
    """

    name: ContainerName
    attempt: str
    pod_uid: str
    cpu_seconds: float
    memory: int


class PeakMemory:
    """The most memory, in bytes, that containers were seen with. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _peaks
        self._peaks: LRUCache[ContainerName, int] = LRUCache(_REMEMBERED)

    def note(self, name: ContainerName, memory: int) -> None:
        """A container was seen with so many bytes; none or less is no news."""
        if memory <= 0:
            return
        with self._lock:
            self._peaks[name] = max(memory, self._peaks.get(name, 0))

    def note_all(self, measurements: Iterable[Measurement]) -> None:
        """Containers were measured."""
        for one in measurements:
            self.note(one.name, one.memory)

    def of(self, name: ContainerName) -> int | None:
        """The most that this container ever had, over all of its attempts; None if it was never seen with any."""
        with self._lock:
            return self._peaks.get(name)

    def of_pod(self, namespace: str, pod: str) -> dict[str, int]:
        """The same for each container of a pod that is known."""
        with self._lock:
            names = [name for name in self._peaks if (name.namespace, name.pod) == (namespace, pod)]
            return {name.container: self._peaks[name] for name in names}
