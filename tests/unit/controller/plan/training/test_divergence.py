"""A loss that is no number: it is reported once, and never ends a job."""

import msgspec

from tests.unit.controller.builders import after, make_job, make_pod, planned, started, with_status
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import condition_of
from tfoperator.api.v1.parts.progress import Metric, TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.report.job import facts_of_job


def reporting(of: TFJob, reports: int, seconds: float = 0, loss: str = "nan") -> TFJob:
    """The job after so many reports in a row whose loss was no number."""
    report = {"metrics": (Metric("loss", loss),), "loss_not_a_number": reports}
    progress = TrainingProgress(last_updated_time=after(seconds), replica="worker-0", **report)
    return with_status(of, msgspec.structs.replace(of.status, progress=progress))


def test_ten_reports_in_a_row_are_told_once_and_a_number_ends_it() -> None:
    worker = make_pod("Worker-0")
    job = started(make_job({"Worker": {"replicas": 1}}))
    job = with_status(job, planned(job, worker).status)
    assert condition_of(with_status(job, planned(reporting(job, 9), worker).status), ConditionType.DIVERGED) is None
    result = planned(reporting(job, 10), worker)
    assert result.reasons == ["LossIsNotANumber"]
    job = with_status(job, result.status)
    assert [condition.type for condition in job.status.operator_conditions if condition.status == "True"] == [
        "Ready",
        "Diverged",
    ]
    assert "Diverged" not in [condition.type for condition in job.status.conditions], (
        "the Go operator's clients don't know it"
    )
    assert "worker-0 has reported this 10 times in a row" in facts_of_job(job).no_number
    assert planned(reporting(job, 10, 5), worker).reasons == []
    assert planned(reporting(job, 3, 5), worker).reasons == [], "another process has begun to count"
    assert planned(reporting(job, 0, 7), worker).reasons == [], "an older CRD has dropped the count"
    assert facts_of_job(with_status(job, planned(reporting(job, 0, 7), worker).status)).no_number
    better = with_status(job, planned(reporting(job, 0, 9, "0.5"), worker).status)
    assert facts_of_job(better).no_number == ""


def test_it_ends_no_job_and_stays_when_the_job_has_ended() -> None:
    job = started(make_job({"Worker": {"replicas": 1}}))
    job = with_status(job, planned(reporting(job, 10), make_pod("Worker-0")).status)
    ended = with_status(job, planned(job, make_pod("Worker-0", "Succeeded", exit_code=0)).status)
    assert ended.status.phase == "Succeeded"
    assert facts_of_job(ended).no_number
