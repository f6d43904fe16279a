"""What the controller asks of an archive of logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tfoperator.kube.objects import ObjectMeta, Pod


class PodArchive(Protocol):
    """Keeps the logs of pods: `tfoperator.logs.archive.LogArchive`. Its methods never block."""

    timeout: float
    """Seconds that a deletion waits at most."""

    def unkept(self, pods: Sequence[Pod]) -> frozenset[str]:
        """The UIDs of those pods whose deletion has to wait until their logs are kept, or their time is over."""
        ...

    def keep(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Begin to keep the logs of those pods that have to wait; `done` is called when it is worth planning again."""
        ...
