"""What the controller reports about jobs, as a protocol: this package depends on no metrics library."""

from __future__ import annotations

from collections.abc import Set
from typing import Protocol

from tfoperator.api.v1.types import ConditionType
from tfoperator.controller.children import ChildKind

__all__ = ["ControllerMetrics", "NoControllerMetrics"]


class ControllerMetrics(Protocol):
    """Hooks, called from many threads; they must be quick and must not raise."""

    def job_transitions(self, namespace: str, transitions: Set[ConditionType]) -> None:
        """These conditions of a job have become True, and the status that says so has been written."""
        ...

    def job_deleted(self, namespace: str) -> None:
        """A job was deleted, by whomever."""
        ...

    def job_started(self, seconds: float) -> None:
        """A job runs for the first time, so many seconds after its creation."""
        ...

    def job_finished(self, seconds: float, *, succeeded: bool) -> None:
        """A job has ended, so many seconds after its creation."""
        ...

    def children_created(self, kind: ChildKind, count: int, failed: int) -> None:
        """A sync created `count` objects, and `failed` creations were refused or got no answer."""
        ...

    def children_deleted(self, kind: ChildKind, count: int) -> None:
        """A sync deleted `count` objects."""
        ...

    def sync_failed(self, reason: str) -> None:
        """A sync will be repeated; `reason` is an error's class name (bounded in number)."""
        ...


class NoControllerMetrics:
    """Counts nothing; the default."""

    def job_transitions(self, namespace: str, transitions: Set[ConditionType]) -> None:
        """See `ControllerMetrics`."""

    def job_deleted(self, namespace: str) -> None:
        """See `ControllerMetrics`."""

    def job_started(self, seconds: float) -> None:
        """See `ControllerMetrics`."""

    def job_finished(self, seconds: float, *, succeeded: bool) -> None:
        """See `ControllerMetrics`."""

    def children_created(self, kind: ChildKind, count: int, failed: int) -> None:
        """See `ControllerMetrics`."""

    def children_deleted(self, kind: ChildKind, count: int) -> None:
        """See `ControllerMetrics`."""

    def sync_failed(self, reason: str) -> None:
        """See `ControllerMetrics`."""
