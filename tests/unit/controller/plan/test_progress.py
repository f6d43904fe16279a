"""A job's progress rides on the statuses that are written anyway, and asks for none of its own."""

from __future__ import annotations

import msgspec

from tests.unit.controller.builders import make_job, make_pod, plan_for, services_of, started
from tfoperator.api.v1.status import TrainingProgress
from tfoperator.api.v1.types import ConditionType, TFJob
from tfoperator.controller.plan.observed import Observed

BEFORE, NOW = TrainingProgress(percentage=40, completion="40%"), TrainingProgress(percentage=99, completion="99%")


def observed(job: TFJob, phase: str, progress: TrainingProgress | None) -> Observed:
    return Observed(job, (make_pod("Worker-0", phase),), services_of(job), progress=progress)


def test_the_last_report_is_in_the_status_that_says_how_the_job_ended() -> None:
    job = started(make_job({"Worker": 1}), progress=BEFORE)
    result = plan_for(observed(job, "Succeeded", NOW))
    assert result.is_true(ConditionType.SUCCEEDED)
    assert result.write_status
    assert result.status.progress == NOW


def test_a_report_alone_is_no_reason_for_the_controller_to_write() -> None:
    job = started(make_job({"Worker": 1}), progress=BEFORE)
    running = plan_for(observed(job, "Running", BEFORE))
    settled = msgspec.structs.replace(job, status=running.status)
    result = plan_for(observed(settled, "Running", NOW))
    assert not result.write_status
    assert result.status.progress == NOW  # for whatever else is to be written


def test_an_ended_job_has_no_time_left() -> None:
    left = TrainingProgress(percentage=25, completion="25%", eta="9s", estimated_remaining_seconds=9)
    job = started(make_job({"Worker": 1}), progress=left)
    for known in (left, None):
        for phase in ("Failed", "Succeeded"):
            told = plan_for(observed(job, phase, known)).status.progress
            assert told == TrainingProgress(percentage=25, completion="25%")
