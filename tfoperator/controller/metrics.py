"""What the controller reports about jobs: this package depends on no metrics library."""

from __future__ import annotations

from collections.abc import Set

from tfoperator.api.v1.types import ConditionType
from tfoperator.controller.kinds import OwnedKind


class ControllerMetrics:
    """Hooks, called from many threads; they must be quick and must not raise. Here each does nothing."""

    def job_transitions(self, namespace: str, transitions: Set[ConditionType]) -> None:
        """These conditions of a job have become True, and the status that says so has been written."""

    def job_deleted(self, namespace: str) -> None:
        """A job was deleted, by whomever."""

    def job_started(self, seconds: float) -> None:
        """A job runs for the first time, so many seconds after its creation."""

    def job_finished(self, seconds: float, *, succeeded: bool) -> None:
        """A job has ended, so many seconds after its creation."""

    def objects_created(self, kind: OwnedKind, count: int, failed: int) -> None:
        """A sync created `count` objects, and `failed` creations were refused or got no answer."""

    def objects_deleted(self, kind: OwnedKind, count: int) -> None:
        """A sync deleted `count` objects."""

    def status_coalesced(self) -> None:
        """A change of a job's status was not written by itself, but together with a later one."""

    def sync_failed(self, reason: str) -> None:
        """A sync will be repeated; `reason` is an error's class name (bounded in number)."""
