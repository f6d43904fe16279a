"""Looks into pods for an operator: finds the newest lines of logs, and stacks, at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tfoperator.base.clock import Clock
from tfoperator.controller.collaborators import PodWitnesses
from tfoperator.controller.plan.values.observed import LogLines, NewestLine
from tfoperator.kube.views.objects import ObjectMeta, Pod

NewestOf = Callable[[str], datetime | None]
"""When the pod of this name wrote its newest line; None if it wrote none."""


def witnesses(newest_of: NewestOf, clock: Clock) -> PodWitnesses:
    """Return the witnesses of one process."""
    return PodWitnesses(_Logs(newest_of, clock), _Stacks(clock))


class _Logs:
    def __init__(self, newest_of: NewestOf, clock: Clock) -> None:
        self._newest_of = newest_of
        self._clock = clock
        self._known: dict[str, LogLines] = {}

    def known(self, uid: str) -> LogLines:
        """Return the result of the last look."""
        return self._known.get(uid, LogLines())

    def look(self, job: ObjectMeta, pods: Sequence[Pod], newer_than: datetime, done: Callable[[], object]) -> None:
        """Look at these in order, up to the first that has a newer line."""
        newest = dict(self.known(job.uid).newest)
        for pod in pods:
            line = self._newest_of(pod.metadata.name)
            if line is not None:
                newest[pod.metadata.uid] = NewestLine(line, line)
                if line > newer_than:
                    break
        self._known[job.uid] = LogLines(newest, self._clock.now())
        done()

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        self._known.pop(uid, None)


class _Stacks:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: dict[str, datetime] = {}

    def taken(self, uid: str) -> datetime:
        """When they were last taken."""
        return self._taken.get(uid, datetime.fromtimestamp(0, UTC))

    def take(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Take them."""
        if pods:
            self._taken[job.uid] = self._clock.now()
            done()

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        self._taken.pop(uid, None)
