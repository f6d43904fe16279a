"""Whom the reconciler asks and tells: the controller, and metrics."""

from __future__ import annotations

from typing import Protocol

from tfoperator.api.v1.types import TFJob
from tfoperator.controller import Comparison


class Reconcilable(Protocol):
    """What the reconciler asks of a controller; `TFJobController` is one."""

    def enqueue(self, key: str) -> None:
        """Sync a job soon."""
        ...

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Sync a job after a while."""
        ...

    def note_comparison(self, uid: str, comparison: Comparison) -> None:
        """Record the time of a comparison with the job's next status write."""
        ...

    def forget_writes(self) -> None:
        """The server does not know what was written last: believe the caches."""
        ...

    def is_settled(self, job: TFJob) -> bool:
        """Whether a sync of a job would find what the last one has found: nothing to do."""
        ...


class ReconcilerMetrics:
    """Hooks; they must be quick and must not raise. Here each does nothing."""

    def looked(self, seconds: float, jobs: int) -> None:
        """A look at the live state took so long, and so many jobs were compared with it."""

    def look_failed(self) -> None:
        """The live state could not be read."""

    def repaired(self, resource: str, objects: int) -> None:
        """A cache had missed changes of so many objects; `expectations` as resource for events that never came."""
