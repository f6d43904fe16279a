"""Executes plans by API calls, and computes when to sync the job again.

`PlanExecutor` keeps the order, `ActionRunner` (`apply.py`) carries out every action in the same way, for all kinds of
objects, and `OutcomeReporter` reports the results. This package makes no decision about a job.
"""

from tfoperator.controller.execute.executor import PlanExecutor
from tfoperator.controller.execute.outcome import AlreadyReported, Requeue, requeue_after, requeue_after_errors
from tfoperator.controller.execute.status import status_patch

__all__ = [
    "AlreadyReported",
    "PlanExecutor",
    "Requeue",
    "requeue_after",
    "requeue_after_errors",
    "status_patch",
]
