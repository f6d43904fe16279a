"""When a job is queued again after a sync: now, when its plan says, with growing delays, or not at all."""

from __future__ import annotations

import logging

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.actions import Plan
from tfoperator.controller.memory import JobMemory
from tfoperator.controller.metrics import ControllerMetrics
from tfoperator.controller.name_taken import SaidOnce
from tfoperator.controller.outcome import Outcome
from tfoperator.kube.errors import ApiError, KubeError, namespace_is_ending
from tfoperator.workqueue import RateLimitingQueue

__all__ = ["Requeuer"]

logger = logging.getLogger(__name__)

_SOONEST_REPEAT = 1.0
"""Seconds until a plan's own timer may repeat a sync that failed; what is sooner is the rate limiter's business."""


class Requeuer:
    """Decides on, and brings about, the next sync of a job. Thread-safe."""

    def __init__(self, queue: RateLimitingQueue[str], memory: JobMemory, metrics: ControllerMetrics) -> None:
        self._queue = queue
        self._memory = memory
        self._metrics = metrics

    def after(self, key: str, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        """The plan was carried out with this outcome."""
        if outcome.gone:
            self._queue.forget(key)
            return
        meta = job.metadata
        if outcome.refused and self._memory.refuse(meta.uid, meta.generation, outcome.refused):
            self._queue.forget(key)
            self._queue.add(key)
            return
        if outcome.errors:
            self.after_errors(key, outcome.errors)
        elif outcome.waiting:
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)
        if plan.requeue_after is not None:
            # A plan that was not carried out as a whole must not overtake the waiting for its repetition by much.
            undone = bool(outcome.errors) or outcome.waiting
            self._queue.add_after(key, max(plan.requeue_after, _SOONEST_REPEAT if undone else 0.0))

    def after_errors(self, key: str, errors: list[KubeError]) -> None:
        """These errors (one or more) kept the sync from doing all that it wanted."""
        extra = {"job": key}
        if all(namespace_is_ending(error) for error in errors):
            logger.info("its namespace is being deleted: nothing more is done about it", extra=extra)
            self._queue.forget(key)
            return
        error = next(one for one in errors if not namespace_is_ending(one))
        self._metrics.sync_failed(type(error).__name__)
        wishes = [one.retry_after for one in errors if isinstance(one, ApiError) and one.retry_after is not None]
        if wishes:
            logger.warning("%s; the server asks to wait for %.0f s", error, max(wishes), extra=extra)
            # A wish is the least: whoever says "in a second", or "at once", for ever is asked ever more rarely.
            self._queue.add_rate_limited(key, at_least=max(wishes))
            return
        # It has been said with an event.
        level = logging.DEBUG if isinstance(error, SaidOnce) else logging.WARNING
        logger.log(level, "%s; trying again (try %d)", error, self._queue.num_requeues(key) + 2, extra=extra)
        self._queue.add_rate_limited(key)

    def after_bug(self, key: str, error: Exception) -> None:
        """The sync raised what no sync should; the next may fare better."""
        logger.error("the sync failed unexpectedly", exc_info=error, extra={"job": key})
        self._metrics.sync_failed(type(error).__name__)
        self._queue.add_rate_limited(key)
