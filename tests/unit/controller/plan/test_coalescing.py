"""A status of nothing but counts is written once in a while, and nothing else waits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.controller.builders import NOW, after, make_job, make_pod, plan_for, planned, services_of, with_status
from tfoperator.controller import Comparison, PlanOptions
from tfoperator.controller.plan.actions import Plan
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.observed import Observed

BOUND = 1.0
OPTIONS = PlanOptions(counts_period=BOUND)
JOB = make_job({"PS": 1, "Worker": 4})
LESS = [make_pod("PS-0"), *(make_pod(f"Worker-{i}", "Running" if i < 1 else "Pending") for i in range(4))]
MORE = [make_pod("PS-0"), *(make_pod(f"Worker-{i}", "Running" if i < 2 else "Pending") for i in range(4))]
RUNNING = with_status(JOB, planned(JOB, *LESS).status)


def decided(*, age: float = 0.0, options: PlanOptions = OPTIONS, **observed: Any) -> Plan:
    """The plan for a job of which one more worker runs than its status says."""
    seen = Observed(RUNNING, tuple(MORE), services_of(RUNNING), status_age=age, **observed)
    return plan_for(seen, options=options)


def test_counts_wait_for_the_end_of_the_period_since_the_last_write() -> None:
    plan = decided(age=0.25)
    assert not plan.write_status
    assert plan.requeue_after == 0.75
    assert plan.status.ready == "3/5"


@pytest.mark.parametrize("age", [1.0, 60.0, math.inf])
def test_they_are_written_if_the_last_write_was_long_ago(age: float) -> None:
    plan = decided(age=age)
    assert plan.write_status
    assert plan.requeue_after is None


def finished(*changes: Callable[[Draft], object], comparison: Comparison | None = None) -> Plan:
    """The plan of a draft that says that one more worker runs, and what else is drafted."""
    draft = Draft(Observed(RUNNING, status_age=0.0, comparison=comparison), NOW, OPTIONS)
    for change in changes:
        change(draft)
    return draft.finish(decided(options=PlanOptions()).status)


@pytest.mark.parametrize(
    "change",
    [
        lambda draft: draft.write_status_first(),
        lambda draft: draft.event("Normal", "TFJobResumed", "it is"),
        lambda draft: draft.create_replica_object(planned(JOB).creations("pods")[0]),
    ],
)
def test_a_plan_that_does_more_than_to_write_counts_writes_them(change: Callable[[Draft], object]) -> None:
    assert not finished().write_status
    plan = finished(change)
    assert plan.write_status
    assert plan.requeue_after is None


def test_a_comparison_that_is_to_be_recorded_takes_them_along() -> None:
    assert finished(comparison=Comparison(after(0), write=True)).write_status
    assert not finished(comparison=Comparison(after(0), write=False)).write_status
