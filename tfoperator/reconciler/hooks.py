"""The interfaces that the reconciler uses: the controller, and metrics."""

from __future__ import annotations

from typing import Protocol

from tfoperator.api.v1.types import TFJob
from tfoperator.controller import Comparison


class Reconcilable(Protocol):
    """The reconciler's interface to a controller; `TFJobController` implements it."""

    def enqueue(self, key: str) -> None:
        """Sync a job soon."""
        ...

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Sync a job in `seconds`."""
        ...

    def note_comparison(self, uid: str, comparison: Comparison) -> None:
        """Record the time of a comparison with the job's next status write."""
        ...

    def forget_writes(self) -> None:
        """Trust the caches: the server has lost the last writes."""
        ...

    def is_settled(self, job: TFJob) -> bool:
        """Return whether a sync of a job would have the same result as the last one: nothing to do."""
        ...


class ReconcilerMetrics:
    """Hooks; they must be quick and must not raise. The methods here do nothing."""

    def looked(self, seconds: float, jobs: int) -> None:
        """Note that a look at the live state took `seconds`, and that `jobs` were compared with it."""

    def look_failed(self) -> None:
        """Note that the live state could not be read."""

    def repaired(self, resource: str, objects: int) -> None:
        """Note that a cache missed changes of `objects` objects; `resource` is `expectations` for missing events."""
