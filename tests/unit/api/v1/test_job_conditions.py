from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob

SUCCEEDED = JobCondition("Succeeded", "True")
FAILED = JobCondition("Failed", "True", "TFJobFailed", "a worker failed")


def job(*conditions: JobCondition) -> TFJob:
    return TFJob(status=TFJobStatus(conditions=conditions))


def test_a_job_ends_by_its_condition_and_of_two_ends_the_failure_counts() -> None:
    assert final_condition(job(JobCondition("Running", "True"))) is None
    assert final_condition(job(JobCondition("Succeeded", "False"))) is None
    assert final_condition(job(JobCondition("Running", "False"), FAILED)) is FAILED
    assert final_condition(job(SUCCEEDED, FAILED)) is FAILED
    assert final_condition(job(FAILED, SUCCEEDED)) is FAILED
