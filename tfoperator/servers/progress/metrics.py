"""The measurements that the server reports, independent of any metrics library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tfoperator.api.v1.status import TrainingProgress


class ProgressMetrics:
    """Hooks that do nothing here: override what you need.

    They are called from many threads: they must be quick and must not raise.
    """

    def received(self) -> None:
        """Count an accepted report."""

    def refused(self, reason: str) -> None:
        """Count a refused request; `reason` is one of a few words."""

    def written(self, seconds: float) -> None:
        """Record a written status, and the seconds since the oldest report that it newly includes."""

    def write_failed(self, reason: str) -> None:
        """Count a refused or failed write; `reason` is the name of an error's class."""

    def progressed(self, namespace: str, name: str, progress: TrainingProgress) -> None:
        """Set the progress of a job that has not ended."""

    def ended(self, namespace: str, name: str) -> None:
        """Remove the progress of a job that has ended, or is gone."""

    def pending(self, read: Callable[[], int]) -> None:
        """Set `read`, which returns the number of jobs with reports that are not in their status yet."""

    def certificate(self, expires: datetime) -> None:
        """Set the expiry of the certificate in use from now on."""
