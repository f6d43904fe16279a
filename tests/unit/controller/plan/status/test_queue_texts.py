"""How often the text is written that shows why a job waits in its queue."""

import msgspec
import pytest

from tests.unit.controller.builders import OPTIONS, after, make_job, plan_for, services_of, with_status
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJob
from tfoperator.controller import PlanOptions
from tfoperator.controller.plan.values.actions import Plan
from tfoperator.controller.plan.values.observed import Observed, QueueGate

PATIENT = msgspec.structs.replace(OPTIONS, queue_text_period=30.0)
SHORT = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu in flavor default, {} more needed"


def waiting(job: TFJob, message: str, seconds: float, options: PlanOptions = PATIENT, reason: str = "Pending") -> Plan:
    observed = Observed(job, services=services_of(job), gate=QueueGate(reason, message))
    return plan_for(observed, now=after(seconds), options=options)


def text_of(plan: Plan) -> str:
    conditions = (*plan.status.conditions, *plan.status.operator_conditions)
    (admitted,) = (condition for condition in conditions if condition.type == ConditionType.ADMITTED)
    return admitted.message


@pytest.fixture
def job() -> TFJob:
    """It waits since the beginning, and runs no pod."""
    job = make_job({"Worker": 1})
    return with_status(job, waiting(job, SHORT.format(5), 0).status)


@pytest.mark.parametrize(("old", "new"), [("5", "4"), ("500m", "1"), ("1.5Gi", "512Mi")])
def test_a_change_of_numbers_alone_waits_for_half_a_minute(old: str, new: str) -> None:
    job = make_job({"Worker": 1})
    job = with_status(job, waiting(job, SHORT.format(old), 0).status)
    early = waiting(job, SHORT.format(new), 10)
    assert early.status == job.status
    assert early.requeue_after == 20
    late = waiting(job, SHORT.format(new), 30)
    assert text_of(late).endswith(f"{new} more needed")
    job = with_status(job, late.status)
    assert waiting(job, SHORT.format("9"), 59).status == job.status, "the time begins anew"


def test_the_same_text_needs_no_second_look(job: TFJob) -> None:
    again = waiting(job, SHORT.format(5), 10)
    assert (again.status, again.requeue_after) == (job.status, None)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (SHORT.format(5) + ", 3 for memory", "Pending"),
        (SHORT.format(4), "Preempted"),
        ("the queue is stopped", "Pending"),
        (SHORT.format(5).replace("cpu", "memory"), "Pending"),
    ],
)
def test_other_words_and_another_reason_are_written_at_once(job: TFJob, message: str, reason: str) -> None:
    assert text_of(waiting(job, message, 1, reason=reason)).endswith(message)


def test_admission_is_written_at_once(job: TFJob) -> None:
    gate = QueueGate("Admitted", "research", admitted=True)
    result = plan_for(Observed(job, services=services_of(job), gate=gate), now=after(1), options=PATIENT)
    assert result.reasons == ["TFJobAdmitted"]


def writes_a_second(options: PlanOptions, jobs: int, seconds: int) -> float:
    """The status writes of waiting jobs while the number in their text changes each second."""
    writes = 0
    for number in range(jobs):
        job = make_job({"Worker": 1}, name=f"job-{number}")
        job = with_status(job, waiting(job, SHORT.format(1000), 0, options).status)
        for second in range(1, seconds + 1):
            status = waiting(job, SHORT.format(1000 - second), second, options).status
            writes += status != job.status
            job = with_status(job, status)
    return writes / seconds


def test_150_jobs_that_wait_cause_5_writes_a_second_instead_of_150() -> None:
    assert writes_a_second(OPTIONS, jobs=150, seconds=30) == 150
    assert writes_a_second(PATIENT, jobs=150, seconds=60) == 5
