"""The usage of containers, as measured by a runtime, and the peak memory of each container."""

from __future__ import annotations

import threading

import msgspec
from cachetools import LRUCache

_REMEMBERED = 10_000
"""The number of containers whose peaks are kept. Without a limit, a control plane that runs for months would keep too
many.
"""


class ContainerName(msgspec.Struct, frozen=True):
    """The name of a container of a pod.

    All attempts to run a container have the same name. If a later pod has the same name as an earlier pod, their
    containers have the same names, too.
    """

    namespace: str
    pod: str
    container: str


class Measurement(msgspec.Struct, frozen=True):
    """The CPU time and memory of one attempt of a container so far, summed over all its processes.

    `attempt` identifies an attempt of a container. `cpu_seconds` counts from the attempt's start and includes child
    processes that have ended. `memory` is the use in bytes at the time of the measurement. For processes, `memory` is
    their resident memory: pages that several processes share count for each of them. For Docker, it is the memory of
    the control group, without page cache that the kernel can reclaim at once.
    """

    name: ContainerName
    attempt: str
    pod_uid: str
    cpu_seconds: float
    memory: int


class PeakMemory:
    """The peak memory in bytes of each container, as far as it was measured. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _peaks
        self._peaks: LRUCache[ContainerName, int] = LRUCache(_REMEMBERED)

    def note(self, name: ContainerName, memory: int) -> None:
        """Update the peak memory of a container, if `memory` (in bytes) is higher than the recorded peak."""
        if memory <= 0:
            return
        with self._lock:
            self._peaks[name] = max(memory, self._peaks.get(name, 0))

    def of_pod(self, namespace: str, pod: str) -> dict[str, int]:
        """Return the peak memory of each measured container of a pod, over all attempts to run the container."""
        with self._lock:
            names = [name for name in self._peaks if (name.namespace, name.pod) == (namespace, pod)]
            return {name.container: self._peaks[name] for name in names}
