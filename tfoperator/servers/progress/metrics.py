"""What the server reports about itself, without this package knowing any metrics library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tfoperator.api.v1.status import TrainingProgress


class ProgressMetrics:
    """Hooks that do nothing here: override what you need.

    They are called from many threads: they must be quick and must not raise.
    """

    def received(self) -> None:
        """A report was taken."""

    def refused(self, reason: str) -> None:
        """A request was refused; `reason` is one of a few words."""

    def written(self, seconds: float) -> None:
        """A status was written, so many seconds after the oldest report in it that it had not said yet."""

    def write_failed(self, reason: str) -> None:
        """A write was refused or failed; `reason` is the name of an error's class."""

    def progressed(self, namespace: str, name: str, progress: TrainingProgress) -> None:
        """A job that has not ended is so far."""

    def ended(self, namespace: str, name: str) -> None:
        """A job has ended, or is gone: nothing is to be shown of it any more."""

    def pending(self, read: Callable[[], int]) -> None:
        """`read` says how many jobs have reports that are not in their status yet."""

    def certificate(self, expires: datetime) -> None:
        """From now on a certificate is shown that expires then."""
