"""The precedence where two rules want different things: each row of the two tables, `VERDICTS` and `PRECEDENCE`."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import NOW, OPTIONS, after, make_job, make_pod, planned, services_of
from tfoperator.api.v1.choices import OnStall
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.controller.plan.combine import PRECEDENCE, combine
from tfoperator.controller.plan.facts.facts import GOES_ON, Facts
from tfoperator.controller.plan.facts.progress import Stall, StallState
from tfoperator.controller.plan.facts.proposal import Act, SetCondition, Want, delete, event, stop
from tfoperator.controller.plan.look import look
from tfoperator.controller.plan.values.actions import Delete, DeleteReason, PhaseName, Plan, StopReason
from tfoperator.controller.plan.values.observed import Observed, UnkeptLogs, Unseen
from tfoperator.controller.plan.verdicts.verdict import VERDICTS, judge

# Verdicts.

STALL = Stall(state=StallState.STALLED, message="It has stalled.", ends_as=OnStall.FAIL)


def all_that_holds_from(first: int) -> Facts:
    """Return the facts about a job for which the verdicts from this place on hold, but none before it."""
    policy: dict[str, Any] = {}
    if first <= 2:
        policy["backoffLimit"] = 0
    if first <= 3:
        policy["suspend"] = True
    if first <= 4:
        policy["activeDeadlineSeconds"] = 1
    if first <= 5:
        policy["startDeadlineSeconds"] = 1
    job = make_job(
        {"Worker": {"replicas": 3, "restartPolicy": "ExitCode"}}, status=TFJobStatus(start_time=NOW), runPolicy=policy
    )
    leader = make_pod("Worker-0", "Succeeded", exit_code=0) if first == 0 else make_pod("Worker-0")
    failed = first <= 1
    second = make_pod("Worker-1", "Failed" if failed else "Running", exit_code=1 if failed else None, restarts_before=1)
    pods = (leader, second, make_pod("Worker-2", "Pending"))
    facts = look(Observed(job, pods, services_of(job)), after(100), OPTIONS)
    return msgspec.structs.replace(facts, stall=STALL if first <= 6 else facts.stall)


@pytest.mark.parametrize("number", range(len(VERDICTS)), ids=[row.verdict.__name__ for row in VERDICTS])
def test_a_verdict_wins_over_those_that_follow(number: int) -> None:
    facts = all_that_holds_from(number)
    assert [row.verdict(facts) is not None for row in VERDICTS] == [place >= number for place in range(len(VERDICTS))]
    assert judge(facts) == VERDICTS[number].verdict(facts)


def test_a_job_goes_on_of_which_no_verdict_holds() -> None:
    assert judge(all_that_holds_from(len(VERDICTS))) is GOES_ON


# The wants of rules.

JOB = make_job({"Worker": 2})
PODS = (make_pod("Worker-0"), make_pod("Worker-1"))
CREATIONS = {
    kind: Act(PhaseName.REPLICAS, planned(JOB, services=()).creations(kind)[0]) for kind in ("pods", "services")
}
SAID = event(JobReason.RESUMED, "it is"), SetCondition(ConditionType.SUSPENDED, "True", JobReason.SUSPENDED, "it is")


def combined(*wants: Want, facts: Facts | None = None, **observed: Any) -> Plan:
    """The plan for all that is wanted, each by a rule of its own."""
    facts = look(Observed(JOB, PODS, services_of(JOB), **observed), NOW, OPTIONS) if facts is None else facts
    return combine(facts, [(want,) for want in wants], None)


def job_deletion() -> None:
    whole = Act(PhaseName.DELETIONS, Delete(kind="tfjobs", name="mnist", uid="u", reason=DeleteReason.EXPIRED))
    plan = combined(*SAID, *delete("pods", PODS[0], DeleteReason.FINISHED), whole, CREATIONS["pods"])
    assert list(plan.actions) == [whole.action]
    assert (plan.events, plan.status, plan.write_status) == ((), JOB.status, False)


def unseen_pod() -> None:
    unseen = Unseen(awaited=frozenset({("worker", "pods")}))
    facts = look(Observed(JOB, PODS, services_of(JOB), unseen=unseen), NOW, OPTIONS)
    lost = msgspec.structs.replace(facts, absent=("mnist-worker-0",))
    assert combined(*SAID, CREATIONS["pods"], facts=lost) == Plan(status=JOB.status)
    assert combined(*SAID, CREATIONS["pods"], facts=facts).events


def unseen_request() -> None:
    unseen = Unseen(awaited=frozenset({("worker", "services")}))
    assert list(combined(*CREATIONS.values()).actions) == [act.action for act in CREATIONS.values()]
    assert list(combined(*CREATIONS.values(), unseen=unseen).actions) == [CREATIONS["pods"].action]
    network = Act(PhaseName.NETWORK, msgspec.structs.replace(CREATIONS["services"].action, replica=None))
    needed = Unseen(awaited=frozenset({("", "services")}))
    assert list(combined(network, CREATIONS["pods"], unseen=needed).actions) == []


def unkept_log() -> None:
    logs = UnkeptLogs(frozenset({PODS[0].metadata.uid}), timeout=60.0)
    plan = combined(*(act for pod in PODS for act in delete("pods", pod, DeleteReason.RESTART)), unkept_logs=logs)
    assert [action.name for action in plan.actions] == [PODS[1].metadata.name]
    assert (plan.looks.keep, plan.requeue_after) == (PODS[:1], 60.0)
    lost = combined(*delete("pods", PODS[0], DeleteReason.NODE_LOST, grace=0), unkept_logs=logs)
    assert [action.name for action in lost.actions] == [PODS[0].metadata.name]


def deletion_of_a_pod() -> None:
    wants = (*stop(PODS[0], StopReason.FAILED), *stop(PODS[1], StopReason.FAILED))
    plan = combined(*wants, *delete("pods", PODS[0], DeleteReason.RESTART))
    assert [(type(action).__name__, action.name) for action in plan.actions] == [
        ("Delete", PODS[0].metadata.name),
        ("Patch", PODS[1].metadata.name),
    ]


TESTS: dict[str, Callable[[], None]] = {
    "the deletion of the job": job_deletion,
    "a pod that no cache shows yet": unseen_pod,
    "a request whose result no cache shows yet": unseen_request,
    "a log that is not kept yet": unkept_log,
    "the deletion of a pod": deletion_of_a_pod,
}


@pytest.mark.parametrize("wins", [row.wins for row in PRECEDENCE])
def test_a_row_of_the_precedence(wins: str) -> None:
    assert wins in TESTS, f"add a test of the row {wins!r} here"
    TESTS[wins]()


def test_every_row_has_a_reason() -> None:
    assert all(row.because.endswith(".") for row in (*PRECEDENCE, *VERDICTS))
