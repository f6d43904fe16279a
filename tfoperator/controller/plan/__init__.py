"""All decisions about a job, as pure functions over values, without a clock, a client or a log.

`plan()` takes an `Observed` and returns a `Plan`: phases of actions, the status, events, and when to look again. Read
`decide.py` first; it follows the life of a job, and calls the other files in that order.
"""

from tfoperator.controller.plan.actions import (
    Action,
    Create,
    Delete,
    DeleteReason,
    KeepLogs,
    LookAtLog,
    Patch,
    Phase,
    PhaseName,
    Plan,
    PlannedEvent,
    ReplicaId,
    StopReason,
    TakeStacks,
)
from tfoperator.controller.plan.decide import is_managed_by_others, plan
from tfoperator.controller.plan.draft import MAX_REQUEUE
from tfoperator.controller.plan.observed import (
    Comparison,
    LogLines,
    NewestLine,
    Observed,
    PlanOptions,
    QueueGate,
    UnkeptLogs,
    Unseen,
    deciding_pods,
)

__all__ = [
    "MAX_REQUEUE",
    "Action",
    "Comparison",
    "Create",
    "Delete",
    "DeleteReason",
    "KeepLogs",
    "LogLines",
    "LookAtLog",
    "NewestLine",
    "Observed",
    "Patch",
    "Phase",
    "PhaseName",
    "Plan",
    "PlanOptions",
    "PlannedEvent",
    "QueueGate",
    "ReplicaId",
    "StopReason",
    "TakeStacks",
    "UnkeptLogs",
    "Unseen",
    "deciding_pods",
    "is_managed_by_others",
    "plan",
]
