from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.unit.controller.builders import NOW, make_job, plan_for, services_of
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import ConditionType, TFJob
from tfoperator.controller import ControllerOptions, PlanOptions
from tfoperator.controller.plan.actions import Plan
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.observed import Observed
from tfoperator.kube.objects import Pod
from tfoperator.kube.resources import PODS

WAITING = PlanOptions(first_status_period=1.0)


def decided(job: TFJob, *pods: Pod, known_for: float = 0.5) -> Plan:
    return plan_for(Observed(job, pods, services_of(job), known_for=known_for), options=WAITING)


def test_that_a_job_is_created_may_wait_for_a_while() -> None:
    job = make_job({"Worker": 2})
    waiting = decided(job)
    assert not waiting.write_status
    assert waiting.transitions == frozenset()
    assert waiting.requeue_after == 0.5
    assert decided(job, known_for=1.0).write_status


def finished(change: Callable[[Draft], object]) -> Plan:
    """The plan of a draft that says that its job is created, and what else is drafted."""
    draft = Draft(Observed(make_job({"Worker": 2}), known_for=0.5), NOW, WAITING)
    draft.conditions.set(ConditionType.CREATED, "True", "TFJobCreated", "it is")
    change(draft)
    return draft.finish(TFJobStatus(conditions=draft.conditions.result()))


@pytest.mark.parametrize(
    "change",
    [
        lambda draft: draft.write_status_first(),
        lambda draft: draft.event("Warning", "Unschedulable", "for want of nodes"),
        lambda draft: draft.conditions.set(ConditionType.FAILED, "True", "TFJobFailed", "it has"),
        lambda draft: draft.conditions.set(ConditionType.SUSPENDED, "True", "TFJobSuspended", "it is"),
    ],
)
def test_nothing_else_may_wait(change: Callable[[Draft], object]) -> None:
    plan = finished(change)
    assert plan.write_status
    assert ConditionType.CREATED in plan.transitions
    assert plan.requeue_after is None


@pytest.mark.parametrize(("before", "after"), [(None, 0.5), (0.2, 0.2), (9.0, 0.5)])
def test_a_plan_whose_status_waits_is_made_again_in_time(before: float | None, after: float) -> None:
    plan = finished(lambda draft: None if before is None else draft.requeue_in(before))
    assert not plan.write_status
    assert plan.requeue_after == after


@pytest.fixture
def harness(clock: FakeClock) -> Iterator[Harness]:
    options = ControllerOptions(batch_period=0, plan=WAITING)
    with Harness(clock=clock, options=options) as one:
        yield one


def test_a_job_whose_pods_do_not_start_is_called_created_in_time(harness: Harness, clock: FakeClock) -> None:
    harness.submit(Worker=2)
    harness.controller.start()
    eventually(lambda: len(harness.api.names(PODS)) == 2)
    eventually(lambda: harness.queue.delayed == 1, what="the job is to be looked at again")
    assert harness.status() == {}
    clock.advance(1.0)
    eventually(lambda: harness.condition("Created").get("status") == "True", what="its first status")
    assert harness.calls("patch") == [("patch", "tfjobs")]


def test_the_waiting_does_not_begin_anew_with_every_look(harness: Harness, clock: FakeClock) -> None:
    harness.submit(Worker=2)
    for _ in range(2):
        harness.sync()
        clock.advance(0.6)
    assert harness.status() == {}
    harness.sync()
    assert harness.condition("Created")["status"] == "True"
