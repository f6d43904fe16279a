"""Carries out plans by API calls, and says when the job has to be looked at again.

`PlanExecutor` keeps the order, `ActionRunner` (`apply.py`) carries out every action in one way, whatever it concerns,
and `OutcomeReporter` tells what became of it. Nothing about a job is decided here.
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
