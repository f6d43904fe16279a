"""What the controller asks of those who look into running pods: for news in their logs, and for their stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from tfoperator.controller.plan import LogLines
from tfoperator.kube.objects import ObjectMeta, Pod


class LogLooks(Protocol):
    """Looks at the newest lines of logs. Its methods never block."""

    def known(self, uid: str) -> LogLines:
        """What the last look at the logs of the job with this UID has found."""
        ...

    def look(self, job: ObjectMeta, pods: Sequence[Pod], newer_than: datetime, done: Callable[[], object]) -> None:
        """Begin to look, unless a look at this job's logs is under way; `done` is called when it is worth planning.

        The pods are looked at in their order, up to the first with a line that is newer.
        """
        ...

    def forget(self, uid: str) -> None:
        """The job is gone."""
        ...


class StackKeeper(Protocol):
    """Takes stacks of the threads in running pods, and keeps them. Its methods never block."""

    def taken(self, uid: str) -> datetime:
        """When those of the job with this UID were last taken; 1970 if never."""
        ...

    def take(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Begin to take them, unless that is under way; `done` is called when it is worth planning."""
        ...

    def forget(self, uid: str) -> None:
        """The job is gone."""
        ...


class PodWitnesses(msgspec.Struct, frozen=True):
    """Who looks into running pods. Without `logs` only reports tell of progress; without `stacks` none are taken."""

    logs: LogLooks | None = None
    stacks: StackKeeper | None = None

    def forget(self, uid: str) -> None:
        """The job is gone."""
        for one in (self.logs, self.stacks):
            if one is not None:
                one.forget(uid)


NO_WITNESSES = PodWitnesses()
