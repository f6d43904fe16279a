"""Decides everything that happens to a TFJob: values in, value out.

`plan()` has no clock, no client and no log, so its behaviour can be tested by tables and properties, and a sync is
"look, decide, act" with all the deciding in one place.
"""

from __future__ import annotations

from datetime import datetime

from tfoperator.controller.actions import (
    DeleteReason,
    ObjectName,
    Observed,
    Plan,
    PlannedEvent,
    PlanOptions,
    PodCreate,
    PodDelete,
    ServiceCreate,
    ServiceDelete,
)

__all__ = [
    "DeleteReason",
    "ObjectName",
    "Observed",
    "Plan",
    "PlanOptions",
    "PlannedEvent",
    "PodCreate",
    "PodDelete",
    "ServiceCreate",
    "ServiceDelete",
    "plan",
]


def plan(observed: Observed, now: datetime, options: PlanOptions) -> Plan:
    """What to do about the job at `now` (UTC). Never raises, whatever the job or its pods look like."""
    return Plan(status=observed.job.status)
