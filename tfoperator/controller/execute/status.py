"""Writes a job's status: at most one PUT per plan, valid only for the version of the job that the plan has read.

Changes in a status are counted and logged only after the status is written: a failed write is repeated, and its changes
would otherwise be counted twice.
"""

from __future__ import annotations

import logging

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.controller.collaborators import Collaborators
from tfoperator.controller.execute.outcome import Outcome
from tfoperator.controller.execute.report import JobEvents
from tfoperator.controller.ledger import Ledger
from tfoperator.controller.plan.values.actions import Plan
from tfoperator.kube.http.sending.requests import status_write
from tfoperator.kube.protocol.errors import ConflictError, InvalidError, KubeError, NotFoundError

logger = logging.getLogger(__name__)


class StatusWriter:
    """Writes the statuses of plans. It is thread-safe for different jobs at the same time."""

    def __init__(self, outside: Collaborators, ledger: Ledger, events: JobEvents) -> None:
        self._client = outside.client
        self._memory, self._cache_lag, _ = ledger
        self._events = events
        self._clock = outside.clock
        self._metrics = outside.metrics

    def write(self, job: TFJob, plan: Plan, outcome: Outcome) -> bool:
        """Write the plan's status if it differs from the job's; return False if the write failed.

        The write also fails if the job was deleted (then `outcome.gone` is set), or if the API server has a newer
        version of the job (then `outcome.waiting` is set).
        """
        meta = job.metadata
        if plan.status == job.status:
            self._memory.recorded(meta.uid, plan.status, self._clock.monotonic())
            return True
        try:
            answer = self._client.make(status_write(TFJOBS, meta, plan.status), decode_tfjob)
        except NotFoundError as error:
            logger.info("the status was not written, because the job is gone: %s", error, extra={"job": meta.key})
            self._cache_lag.doubt(meta.uid)
            outcome.gone = True
            return False
        except ConflictError:
            # The cache will receive the newer version of the job, and the next sync then writes the status.
            logger.debug("the status is not written yet, because the job has changed", extra={"job": meta.key})
            outcome.waiting = True
            try:
                self._cache_lag.changed(job)
            except KubeError as error:
                outcome.errors.append(error)
            return False
        except KubeError as error:
            if isinstance(error, InvalidError):
                # The job violates rules of the CRD that are newer than the job. The status can't report that, because
                # the API server refuses each write of this status.
                refusal = error.status.message
                message = f"The API server refuses the job's status until the job's spec is corrected: {refusal}"
                self._events.warn_once(job, JobReason.STATUS_REFUSED, message, about="status")
            outcome.errors.append(error)
            return False
        if answer.metadata.resource_version != meta.resource_version:
            self._cache_lag.status_written(answer)
        self._memory.recorded(meta.uid, plan.status, self._clock.monotonic())
        self._report_transitions(job, plan)
        return True

    def _report_transitions(self, job: TFJob, plan: Plan) -> None:
        if not plan.transitions:
            return
        meta = job.metadata
        self._metrics.job_transitions(meta.namespace, plan.transitions)
        logger.info("is now %s", ", ".join(sorted(plan.transitions)), extra={"job": meta.key})
        if meta.creation_timestamp is None:
            return
        age = max((self._clock.now() - meta.creation_timestamp).total_seconds(), 0.0)
        if ConditionType.RUNNING in plan.transitions and not _has_run(job):
            self._metrics.job_started(age)
        for condition in (ConditionType.SUCCEEDED, ConditionType.FAILED):
            if condition in plan.transitions:
                self._metrics.job_finished(age, succeeded=condition is ConditionType.SUCCEEDED)


def _has_run(job: TFJob) -> bool:
    started = (ConditionType.RUNNING, ConditionType.RESTARTING)
    return any(condition.type in started and condition.status != "Unknown" for condition in job.status.conditions)
