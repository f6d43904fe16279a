"""The controller's dependencies: an API client, events, metrics, a log archive, and inspection of running pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.controller.metrics import ControllerMetrics
from tfoperator.controller.plan.values.observed import LogLines
from tfoperator.events import ObjectReference
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import ObjectMeta, Pod

if TYPE_CHECKING:
    from tfoperator.logs.archive.writer import LogArchive


class Recorder(Protocol):
    """A receiver of events: `tfoperator.events.EventRecorder`, or a list in tests."""

    def event(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the API's name
        reason: str,
        message: str,
    ) -> None:
        """Report something about an object; never blocks, never raises."""
        ...


class LogLooks(Protocol):
    """Reads the newest lines of logs. Its methods never block."""

    def known(self, uid: str) -> LogLines:
        """Return the result of the last reading of the logs of the job with this UID."""
        ...

    def look(self, job: ObjectMeta, pods: Sequence[Pod], newer_than: datetime, done: Callable[[], object]) -> None:
        """Begin to read this job's logs, unless they are being read now.

        Another thread calls `done` when the lines that were read are a reason for a new plan. The logs are read in
        the order of `pods`, until a log has a line that is newer than `newer_than`.
        """
        ...

    def forget(self, uid: str) -> None:
        """Drop the log lines of the job with this UID, because the job was deleted."""
        ...


class StackKeeper(Protocol):
    """Takes stacks of the threads in running pods, and keeps them. Its methods never block."""

    def taken(self, uid: str) -> datetime:
        """Return when the stacks of the job with this UID were last taken; 1970 if never."""
        ...

    def take(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Begin to take stacks, unless they are being taken now.

        Another thread calls `done` when the stacks that were taken are a reason for a new plan.
        """
        ...

    def forget(self, uid: str) -> None:
        """Drop the record about the stacks of the job with this UID, because the job was deleted."""
        ...


class PodWitnesses(msgspec.Struct, frozen=True):
    """The objects that inspect running pods."""

    logs: LogLooks | None = None
    """Reads the newest lines of the pods' logs. If it is None, only the reports of a job's programs show progress."""

    stacks: StackKeeper | None = None
    """Takes the stacks of the threads in the pods. If it is None, no stacks are taken."""

    def forget(self, uid: str) -> None:
        """Drop the log lines and the record about stacks of the job with this UID, because the job was deleted."""
        for witness in (self.logs, self.stacks):
            if witness is not None:
                witness.forget(uid)


class Collaborators(msgspec.Struct, frozen=True):
    """The objects that a controller needs; they are the same for all jobs."""

    client: ApiClient
    recorder: Recorder
    clock: Clock = SystemClock()
    metrics: ControllerMetrics = ControllerMetrics()
    archive: LogArchive | None = None
    """With an archive, a pod is deleted only after its logs are archived, or after the archive's timeout."""

    witnesses: PodWitnesses = PodWitnesses()
    """The objects that inspect the pods of jobs with a progress deadline."""

    progress_of: Callable[[TFJob], TrainingProgress | None] | None = None
    """Returns the progress that a job has reported so far. Each write of the job's status includes this progress."""
