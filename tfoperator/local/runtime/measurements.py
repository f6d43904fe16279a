"""The usage of containers, as measured by a runtime, and the peak memory of each of them."""

from __future__ import annotations

import threading

import msgspec
from cachetools import LRUCache

_REMEMBERED = 10_000
"""Containers whose peaks are kept; without a limit, a control plane that runs for months would keep too many."""


class ContainerName(msgspec.Struct, frozen=True):
    """A container of a pod, by name. Attempts of a container, and successive pods of one name, share it."""

    namespace: str
    pod: str
    container: str


class Measurement(msgspec.Struct, frozen=True):
    """The usage of one attempt of a container so far, of all its processes together.

    `attempt` identifies an attempt of a container. `cpu_seconds` counts from its start and includes children that have
    ended; `memory` is in bytes, now. For processes it is their resident memory, in which shared pages count for each
    process; for Docker it is the control group's, without page cache that can be reclaimed at once.
    """

    name: ContainerName
    attempt: str
    pod_uid: str
    cpu_seconds: float
    memory: int


class PeakMemory:
    """The most memory, in bytes, measured for each container. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _peaks
        self._peaks: LRUCache[ContainerName, int] = LRUCache(_REMEMBERED)

    def note(self, name: ContainerName, memory: int) -> None:
        """Record a container's memory in bytes; a value of 0 or below the peak changes nothing."""
        if memory <= 0:
            return
        with self._lock:
            self._peaks[name] = max(memory, self._peaks.get(name, 0))

    def of_pod(self, namespace: str, pod: str) -> dict[str, int]:
        """Return the peak memory of each known container of a pod, over all of its attempts."""
        with self._lock:
            names = [name for name in self._peaks if (name.namespace, name.pod) == (namespace, pod)]
            return {name.container: self._peaks[name] for name in names}
