"""What a job's owner is told of the execution of plans, as events: each complaint in words meant for that reader.

An event outlives its cause and may be read by everyone who may read the namespace, so nothing of our own side is in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.ledger import JobMemory
from tfoperator.controller.plan import PlannedEvent
from tfoperator.events import ObjectReference
from tfoperator.kube.errors import ApiError, KubeError, namespace_is_ending

logger = logging.getLogger(__name__)

MAX_MESSAGE = 1024
"""Characters of an event's message; API servers refuse longer ones."""


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


class JobEvents:
    """Words events about jobs and hands them to the recorder. Thread-safe."""

    def __init__(self, recorder: Recorder, memory: JobMemory) -> None:
        """`memory` knows what has been said about a job before."""
        self._recorder = recorder
        self._memory = memory

    def emit(self, job: TFJob, events: Iterable[PlannedEvent]) -> None:
        """Record these events about the job."""
        for event in events:
            reference = ObjectReference.to(TFJOBS.api_version, TFJOBS.kind, job.metadata)
            self._recorder.event(reference, event.type, event.reason, event.message)

    def failed(self, job: TFJob, reason: str, what: str, failures: Sequence[KubeError], *, once: bool = False) -> None:
        """Tell the job's owner what the API server refuses; `what` begins the sentence.

        With `once` only the first time for each generation of the job, whatever the answers are later.

        Not what went wrong on our side: who owns a job can't mend that, and is not meant to read it, for the complaint
        of a credential plugin may hold anything.
        """
        answers = [one for one in failures if isinstance(one, ApiError) and not namespace_is_ending(one)]
        if answers and (not once or self._memory.first_warning(job.metadata.uid, reason)):
            message = f"{what}: {_summary(answers)}"
            if once:
                logger.warning("%s", message, extra={"job": job.metadata.key})
            self.emit(job, (PlannedEvent("Warning", reason, message),))

    def warn_once(self, job: TFJob, reason: str, message: str, *, about: str = "") -> None:
        """Tell of something that stays as it is for a while, once per generation of the job.

        It is told by `about`, if that is given, from what has been told before: a server's words may change from one
        answer to the next ("used: cpu=57").
        """
        if self._memory.first_warning(job.metadata.uid, about or message):
            logger.warning("%s", message, extra={"job": job.metadata.key})
            self.emit(job, (PlannedEvent("Warning", reason, message[:MAX_MESSAGE]),))


def _summary(failures: Sequence[KubeError]) -> str:
    more = len(failures) - 1
    return f"{failures[0]} (and {more} more)" if more else str(failures[0])
