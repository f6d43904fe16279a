"""A status of nothing but counts is written once in a while, and nothing else waits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.controller.builders import NOW, after, make_job, make_pod, plan_for, planned, services_of, with_status
from tests.unit.controller.world import World
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import Comparison, PlanOptions
from tfoperator.controller.plan.actions import Plan
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.observed import Observed
from tfoperator.controller.plan.status import only_counts_rise

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


# In virtual time.


class Life:
    """A job and its operator, whose delayed syncs come when they are due."""

    def __init__(self, job: TFJob, options: PlanOptions) -> None:
        self.world = World(job, options=options)
        self.at = 0.0
        self.due: float | None = None
        self.writes = 0

    def sync(self) -> None:
        """Until there is nothing to do."""
        for _ in range(12):
            result = self.world.sync()
            self.writes += result.write_status
            if result.requeue_after is not None:
                due = self.at + result.requeue_after
                self.due = due if self.due is None else min(self.due, due)
            if not result.acts:
                return
        raise AssertionError("it keeps acting")

    def wait_until(self, moment: float) -> None:
        """Let time pass without looking."""
        self.world.tick(moment - self.at)
        self.at = moment

    def look_if_due(self) -> bool:
        if self.due is None or self.due > self.at:
            return False
        self.due = None
        self.sync()
        return True

    def happen(self, what: str, pick: int) -> None:
        world = self.world
        if what == "scale":
            world.scale("Worker", pick % 8)
        elif what == "suspend":
            world.suspend(pick % 2 == 0)
        elif world.pods:
            name = sorted(world.pods)[pick % len(world.pods)]
            if what in ("exit-0", "exit-1", "exit-137"):
                world.exit(name, int(what.partition("-")[2]))
            else:
                getattr(world, what)(name)

    @property
    def status(self) -> TFJobStatus:
        """As written, without when the words of conditions were last changed, and the usage, which rides along."""
        status = self.world.job.status
        conditions = tuple(msgspec.structs.replace(one, last_update_time=None) for one in status.conditions)
        return msgspec.structs.replace(status, conditions=conditions, usage=None)


class Twins:
    """The same life twice: in one of them each change is written at once."""

    def __init__(self, job: TFJob) -> None:
        self.at_once = Life(job, PlanOptions())
        self.coalesced = Life(job, OPTIONS)
        self.both = (self.at_once, self.coalesced)
        self.differ_since: float | None = None

    def sync(self) -> None:
        for one in self.both:
            one.sync()
        self.compare()

    def compare(self) -> None:
        written, expected, at = self.coalesced.status, self.at_once.status, self.coalesced.at
        if written == expected:
            self.differ_since = None
            return
        assert only_counts_rise(written, expected, self.coalesced.world.job.spec), (written, expected)
        self.differ_since = at if self.differ_since is None else self.differ_since
        assert at - self.differ_since < BOUND, "it is late"

    def pass_time(self, seconds: float) -> None:
        end = self.at_once.at + seconds
        while True:
            due = [one.due for one in self.both if one.due is not None and one.due <= end]
            for one in self.both:
                one.wait_until(min(due, default=end))
            if not due:
                return
            for one in self.both:
                one.look_if_due()
            self.compare()


HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(
            ["run"] * 9 + ["exit-0", "exit-1", "exit-137", "kill", "gone", "evict", "vanish", "scale", "suspend"]
        ),
        st.integers(0, 20),
        st.sampled_from([0.0, 0.0625, 0.25, 1.0, 2.5]),
    ),
    max_size=40,
)
"""What happens to which pod, and how long nothing does then. Sums of these times are exact, so that what is due at one
time in both lives happens at one time."""


@settings(max_examples=200, deadline=None)
@given(happenings=HAPPENINGS, policy=st.sampled_from(["Never", "OnFailure", "ExitCode"]), workers=st.integers(1, 7))
def test_whatever_happens_only_counts_are_late_and_never_by_more_than_the_bound(
    happenings: list[tuple[str, int, float]], policy: str, workers: int
) -> None:
    twins = Twins(make_job({"PS": {"replicas": 2}, "Worker": {"replicas": workers, "restartPolicy": policy}}))
    twins.sync()
    for what, pick, seconds in happenings:
        for one in twins.both:
            one.happen(what, pick)
        twins.sync()
        twins.pass_time(seconds)
    twins.pass_time(BOUND)
    assert twins.coalesced.status == twins.at_once.status
    assert twins.coalesced.writes <= twins.at_once.writes
