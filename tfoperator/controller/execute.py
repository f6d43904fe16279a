"""Carries a plan out: expectations first, then API calls, and never one more than the plan says.

Nothing is decided here but the order of the plan's parts and how to go on when a call fails. A failed call never stops
what is independent of it, the status is written even so (it says what was observed), and what must be repeated is left
to the next sync, which looks at the whole state again: that is what makes a crash between any two calls harmless.
"""

from __future__ import annotations

import logging

from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.clock import Clock, SystemClock
from tfoperator.controller.actions import Plan, PlannedEvent
from tfoperator.controller.claim import Claimer
from tfoperator.controller.execute_board import BoardExecutor
from tfoperator.controller.execute_creations import CreationExecutor
from tfoperator.controller.execute_deletions import DeletionExecutor
from tfoperator.controller.execute_status import StatusWriter
from tfoperator.controller.gang import GangScheduler
from tfoperator.controller.job_events import JobEvents, Recorder
from tfoperator.controller.memory import JobMemory
from tfoperator.controller.metrics import ControllerMetrics, NoControllerMetrics
from tfoperator.controller.outcome import Outcome
from tfoperator.controller.pod_groups import PodGroupExecutor
from tfoperator.controller.slow_start import CallPool
from tfoperator.expectations import Expectations
from tfoperator.kube.errors import ConflictError, KubeError, NotFoundError
from tfoperator.kube.verbs import ApiClient

__all__ = ["PlanExecutor"]

logger = logging.getLogger(__name__)


class PlanExecutor:
    """Executes plans. Thread-safe, for different jobs at a time; the caller sees to one plan per job at a time."""

    def __init__(
        self,
        client: ApiClient,
        *,
        claimer: Claimer,
        pool: CallPool,
        expectations: Expectations,
        memory: JobMemory,
        recorder: Recorder,
        clock: Clock | None = None,
        metrics: ControllerMetrics | None = None,
        gang: GangScheduler | None = None,
    ) -> None:
        """`gang` only where there is a gang scheduler: without it, plans say nothing of PodGroups."""
        clock, metrics = clock or SystemClock(), metrics or NoControllerMetrics()
        events = JobEvents(recorder, memory)
        self._client = client
        self._events = events
        self._status = StatusWriter(client, memory=memory, events=events, clock=clock, metrics=metrics)
        self._deletions = DeletionExecutor(
            client, claimer=claimer, pool=pool, expectations=expectations, events=events, metrics=metrics
        )
        self._creations = CreationExecutor(
            client, claimer=claimer, pool=pool, expectations=expectations, events=events, metrics=metrics
        )
        self._board = BoardExecutor(client, claimer=claimer, expectations=expectations, memory=memory, emit=events.emit)
        self._pod_groups: PodGroupExecutor | None = None
        if gang is not None:
            self._pod_groups = PodGroupExecutor(
                client, gang, claimer=claimer, expectations=expectations, events=events, metrics=metrics
            )

    def execute(self, job: TFJob, plan: Plan) -> Outcome:
        """Carry out a plan made for `job`. API errors are in the outcome, not raised."""
        outcome = Outcome()
        if plan.delete_job:
            self._delete_job(job, plan, outcome)
            return outcome
        if plan.write_status_first and not self._status.write(job, plan, outcome):
            return outcome
        self._deletions.execute(job, plan, outcome)
        if self._pod_groups is not None:
            self._pod_groups.delete(job, plan, outcome)
        if self._pod_groups is None or self._pod_groups.write(job, plan, outcome):
            self._creations.execute(job, plan, outcome)
        if outcome.refused:
            # The plan's status speaks of a job that could be started; the next plan will say what is wrong.
            return outcome
        if plan.board:
            board = self._board.execute(job, plan.board)
            outcome.errors += board.errors
            outcome.waiting = outcome.waiting or board.waiting
        if plan.write_status and not plan.write_status_first and not self._status.write(job, plan, outcome):
            return outcome
        self._events.emit(job, plan.events)
        return outcome

    def _delete_job(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        meta = job.metadata
        try:
            self._client.delete(TFJOBS, meta.namespace, meta.name, uid=meta.uid, propagation_policy="Background")
        except (NotFoundError, ConflictError):
            # Another job may have the name by now; this one is gone, which is all that was wanted.
            outcome.gone = True
        except KubeError as error:
            self._events.failed(job, "FailedDeleteJob", "Error deleting", [error])
            outcome.errors.append(error)
        else:
            logger.info("deleted after its time to live", extra={"job": meta.key})
            deleted = PlannedEvent("Normal", "SuccessfulDeleteJob", f"Deleted job: {meta.name}")
            self._events.emit(job, (*plan.events, deleted))
