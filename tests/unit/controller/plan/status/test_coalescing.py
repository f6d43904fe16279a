"""A status of nothing but counts is written once in a while; other changes do not wait."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.plan_options import controller_options, plan_options
from tests.unit.controller.builders import (
    NOW,
    after,
    make_job,
    make_pod,
    plan_for,
    planned,
    services_of,
    started,
    waiting,
    with_status,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import Comparison, PlanOptions
from tfoperator.controller.plan.combine import combine
from tfoperator.controller.plan.facts.proposal import STATUS_FIRST, Act, LookAgain, SetCondition, Want, event
from tfoperator.controller.plan.look import look
from tfoperator.controller.plan.status.status import only_counts_rise
from tfoperator.controller.plan.values.actions import PhaseName, Plan
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import Pod

BOUND = 1.0
OPTIONS = plan_options(counts_period=BOUND)
JOB = make_job({"PS": 1, "Worker": 4})


def pods(running: int, *, ready: bool = True) -> dict[str, Pod]:
    """The PS runs and so many workers, and the other workers don't yet."""
    workers = {f"Worker-{i}": make_pod(f"Worker-{i}", "Running" if i < running else "Pending") for i in range(4)}
    return {**workers, "PS-0": make_pod("PS-0", ready=ready)}


RUNNING = with_status(JOB, planned(JOB, *pods(1).values()).status)


def decided(*, age: float = 0.0, options: PlanOptions = OPTIONS, **observed: Any) -> Plan:
    """Return the plan for a job of which one more worker runs than its status counts."""
    observation = Observed(RUNNING, tuple(pods(2).values()), services_of(RUNNING), status_age=age, **observed)
    return plan_for(observation, options=options)


def finished(*wants: Want, comparison: Comparison | None = None) -> Plan:
    """Return the plan for a job of which one more worker runs than its status counts, with these wants."""
    observed = Observed(RUNNING, tuple(pods(2).values()), services_of(RUNNING), status_age=0.0, comparison=comparison)
    return combine(look(observed, NOW, OPTIONS), (wants,), None)


@pytest.mark.parametrize(
    "want",
    [
        STATUS_FIRST,
        event(JobReason.RESUMED, "it is"),
        Act(PhaseName.REPLICAS, planned(JOB).creations("pods")[0]),
    ],
)
def test_a_plan_that_does_more_than_to_write_counts_writes_them(want: Want) -> None:
    assert not finished().write_status
    plan = finished(want)
    assert plan.write_status
    assert plan.requeue_after is None
    for recorded in (True, False):
        assert finished(comparison=Comparison(after(0), write=recorded)).write_status is recorded


def status(running: int, *, ready: bool = True, job: TFJob = JOB, **others: Pod) -> TFJobStatus:
    replicas = pods(running, ready=ready) | {name.replace("_", "-"): pod for name, pod in others.items()}
    return planned(job, *replicas.values()).status


def only_counts(old: TFJobStatus, new: TFJobStatus, job: TFJob = JOB) -> bool:
    return only_counts_rise(old, new, job.spec)


def test_fewer_are_more_than_that_and_all_workers_are_what_somebody_may_wait_for() -> None:
    assert not only_counts(status(2), status(1))
    assert not only_counts(status(2), status(3, ready=False))
    assert not only_counts(status(3, ready=False), status(4, ready=False))
    assert only_counts(status(2, ready=False), status(3, ready=False))
    more = msgspec.structs.replace(status(4, ready=False), ready="5/5")
    assert only_counts(status(4, ready=False), more), "they were before"


@pytest.mark.parametrize(
    ("why", "new"),
    [
        ("the first pod that runs", status(1)),
        ("ready", status(4)),
        ("an end", status(2, Worker_3=make_pod("Worker-3", "Succeeded", exit_code=0))),
        ("a failure", status(2, Worker_3=make_pod("Worker-3", "Failed", exit_code=1))),
        ("trouble", status(2, Worker_3=make_pod("Worker-3", "Pending", containers=(waiting("ImagePullBackOff"),)))),
        ("a restart", status(2, Worker_3=make_pod("Worker-3", restarts_before=1))),
        ("another size", status(2, job=make_job({"PS": 1, "Worker": 5}))),
        ("another generation", status(2, job=make_job({"PS": 1, "Worker": 4}, generation=2))),
    ],
)
def test_everything_else_is_more_than_that(why: str, new: TFJobStatus) -> None:
    old = status(0, PS_0=make_pod("PS-0", "Pending")) if why == "the first pod that runs" else status(1)
    assert old != new
    assert not only_counts(old, new), why


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Unknown"},
        {"restarts": 1},
        {"job_restarts": 1},
        {"start_time": None},
        {"observed_generation": 7},
        {"ready": "2/6"},
        {"replica_statuses": {}},
        {"conditions": ()},
        {"operator_conditions": (JobCondition("Ready", "True", "TFJobReady"),)},
    ],
)
def test_no_other_field_may_differ(change: dict[str, Any]) -> None:
    new = msgspec.structs.replace(status(2), **change)
    assert not only_counts(status(1), new)


# The first status, too, waits for news: that a job is created is none to its creator.

WAITING = plan_options(first_status_period=1.0)


def at_first(job: TFJob, *pods: Pod, known_for: float = 0.5) -> Plan:
    return plan_for(Observed(job, pods, services_of(job), known_for=known_for), options=WAITING)


def test_that_a_job_is_created_may_wait_for_a_while() -> None:
    job = make_job({"Worker": 2})
    waiting = at_first(job)
    assert not waiting.write_status
    assert (waiting.transitions, waiting.requeue_after) == (frozenset(), 0.5)
    assert at_first(job, known_for=1.0).write_status


def drafted(*wants: Want) -> Plan:
    """The plan for a job that is created, and for what else is wanted."""
    created = SetCondition(ConditionType.CREATED, "True", JobReason.CREATED, "it is")
    facts = look(Observed(make_job({"Worker": 2}), known_for=0.5), NOW, WAITING)
    return combine(facts, ((created, *wants),), None)


@pytest.mark.parametrize(
    "want",
    [
        STATUS_FIRST,
        event(JobReason.UNSCHEDULABLE, "for want of nodes"),
        SetCondition(ConditionType.FAILED, "True", JobReason.FAILED, "it has"),
        SetCondition(ConditionType.SUSPENDED, "True", JobReason.SUSPENDED, "it is"),
    ],
)
def test_nothing_else_may_wait(want: Want) -> None:
    plan = drafted(want)
    assert plan.write_status
    assert ConditionType.CREATED in plan.transitions
    assert plan.requeue_after is None


@pytest.mark.parametrize(("before", "after"), [(None, 0.5), (0.2, 0.2), (9.0, 0.5)])
def test_a_plan_whose_status_waits_is_made_again_in_time(before: float | None, after: float) -> None:
    plan = drafted(*(() if before is None else (LookAgain(before),)))
    assert not plan.write_status
    assert plan.requeue_after == after


@pytest.fixture
def harness(clock: FakeClock) -> Iterator[Harness]:
    options = controller_options(batch_period=0, plan=WAITING)
    with Harness(clock=clock, options=options) as new_harness:
        yield new_harness


def test_a_job_whose_pods_do_not_start_is_called_created_in_time(harness: Harness, clock: FakeClock) -> None:
    harness.submit(Worker=2)
    harness.controller.start()
    eventually(lambda: len(harness.api.names(PODS)) == 2)
    eventually(lambda: harness.queue.delayed == 1, what="the job is to be looked at again")
    assert harness.status() == {}
    clock.advance(1.0)
    eventually(lambda: harness.condition("Created").get("status") == "True", what="its first status")
    assert harness.calls("replace") == [("replace", "tfjobs")]


def test_the_waiting_does_not_begin_anew_with_every_look(harness: Harness, clock: FakeClock) -> None:
    harness.submit(Worker=2)
    for _ in range(2):
        harness.sync()
        clock.advance(0.6)
    assert harness.status() == {}
    harness.sync()
    assert harness.condition("Created")["status"] == "True"


def test_the_last_report_is_in_the_status_that_says_how_the_job_ended() -> None:
    job = started(make_job({"Worker": 1}), progress=TrainingProgress(percentage=40))
    last = TrainingProgress(percentage=99)
    result = plan_for(Observed(job, (make_pod("Worker-0", "Succeeded"),), services_of(job), progress=last))
    assert (result.write_status, result.status.progress) == (True, last)
