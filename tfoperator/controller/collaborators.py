"""What the controller works with: an API server, events, metrics, an archive of logs, and looks into running pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from tfoperator.api.v1.status import TrainingProgress
from tfoperator.api.v1.types import ConditionType, TFJob
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.plan import LogLines
from tfoperator.events import ObjectReference
from tfoperator.kube.objects import ObjectMeta, Pod
from tfoperator.kube.verbs import ApiClient


class Recorder(Protocol):
    """Where events go: `tfoperator.events.EventRecorder`, or a list in tests."""

    def event(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the API's name
        reason: str,
        message: str,
    ) -> None:
        """Report something about an object; never blocks, never raises."""
        ...


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

    def sync_failed(self, reason: str) -> None:
        """A sync will be repeated; `reason` is an error's class name (bounded in number)."""


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


class Collaborators(msgspec.Struct, frozen=True):
    """What a controller works with, whichever jobs there are.

    With an `archive`, no pod is deleted before its logs are kept, or its time for that is over. `progress_of` says what
    a job has reported by now: each write of a status, the last above all, says it, too. `witnesses` look into the pods
    of jobs that have a deadline for their progress.
    """

    client: ApiClient
    recorder: Recorder
    clock: Clock = SystemClock()
    metrics: ControllerMetrics = ControllerMetrics()
    archive: PodArchive | None = None
    witnesses: PodWitnesses = PodWitnesses()
    progress_of: Callable[[TFJob], TrainingProgress | None] | None = None
