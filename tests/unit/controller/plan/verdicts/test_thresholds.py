"""How many workers have to succeed, how many may fail, and that what failed for good is remembered."""

from typing import Any

import pytest

from tests.unit.controller.builders import (
    NOW,
    ReadablePlan,
    after,
    make_job,
    plan_for,
    planned,
    pods_by_letter,
    services_of,
    started,
    with_status,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.observed import Observed

C = ConditionType


def job_with(letters: str, policy: str = "Never", chief: bool = False, **spec: Any) -> TFJob:
    replicas: dict[str, Any] = {"Worker": {"replicas": len(letters), "restartPolicy": policy}}
    if chief:
        replicas["Chief"] = 1
    return started(make_job(replicas, **spec))


def remembered(result: ReadablePlan) -> str:
    return result.status.replica_statuses["Worker"].failed_indexes


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # workers, spec, chief, verdict
    ("SSSR", {"minSucceededWorkers": "80%"}, "", ""),
    ("SSSS", {"minSucceededWorkers": "80%"}, "", "Succeeded"),
    ("SSSRR", {"minSucceededWorkers": "60%"}, "", "Succeeded"),
    ("SSRRR", {"minSucceededWorkers": "50%"}, "", ""),
    ("RRSRS", {"minSucceededWorkers": 2}, "", "Succeeded"),
    ("SR", {"minSucceededWorkers": 5}, "", ""),
    ("SS", {"minSucceededWorkers": 5}, "", "Succeeded"),
    # Worker 0 is a worker like any other then.
    ("SRRR", {"minSucceededWorkers": 2}, "", ""),
    ("FSSR", {"minSucceededWorkers": 2, "maxFailedWorkers": 1}, "", "Succeeded"),
    ("FSRR", {"minSucceededWorkers": 2, "maxFailedWorkers": 1}, "", ""),
    # Success is looked for first.
    ("SSFF", {"minSucceededWorkers": 2}, "", "Succeeded"),
    # The number of workers that may fail is a question of its own.
    ("SRRF", {"minSucceededWorkers": 2}, "", "Failed"),
    ("FFRR", {"minSucceededWorkers": 2, "maxFailedWorkers": 1}, "", "Failed"),
    # Out of reach.
    ("FFRR", {"minSucceededWorkers": 3, "maxFailedWorkers": "100%"}, "", "Failed"),
    ("FFFF", {"minSucceededWorkers": 1, "maxFailedWorkers": "100%"}, "", "Failed"),
    ("FFRR", {"minSucceededWorkers": 3, "enableDynamicWorker": True}, "", "Failed"),
    ("FRRR", {"minSucceededWorkers": 3, "enableDynamicWorker": True}, "", ""),
    # A chief doesn't decide when so many workers have to.
    ("RR", {"minSucceededWorkers": 1}, "S", ""),
    ("SR", {"minSucceededWorkers": 1}, "R", "Succeeded"),
    ("RR", {"minSucceededWorkers": 1}, "F", "Failed"),
    ("FF", {"minSucceededWorkers": 1, "maxFailedWorkers": 2}, "R", "Failed"),
    # With a chief and no such wish it does, whatever may fail.
    ("FFRR", {"maxFailedWorkers": "50%"}, "R", ""),
    ("FFFR", {"maxFailedWorkers": "50%"}, "R", "Failed"),
    ("FFFF", {"maxFailedWorkers": "100%"}, "R", ""),
    ("FFRR", {"maxFailedWorkers": "50%"}, "S", "Succeeded"),
    ("FFRR", {"maxFailedWorkers": "50%"}, "F", "Failed"),
    # Rounded down: a quarter of three is none.
    ("RFR", {"maxFailedWorkers": "25%"}, "", "Failed"),
    ("RFR", {"maxFailedWorkers": "34%"}, "", ""),
    ("RFR", {"maxFailedWorkers": 1}, "", ""),
    ("RFR", {"maxFailedWorkers": 0}, "", "Failed"),
    ("RFR", {"maxFailedWorkers": 0, "enableDynamicWorker": True}, "", "Failed"),
    # Worker 0 leads where no chief does.
    ("FRR", {"maxFailedWorkers": 2}, "", "Failed"),
    ("SFF", {"maxFailedWorkers": 2}, "", "Succeeded"),
    ("RFF", {"maxFailedWorkers": 2}, "", ""),
    # All workers but those that may fail.
    ("SFS", {"maxFailedWorkers": 1, "successPolicy": "AllWorkers"}, "", "Succeeded"),
    ("FSR", {"maxFailedWorkers": 1, "successPolicy": "AllWorkers"}, "", ""),
    ("FSF", {"maxFailedWorkers": 1, "successPolicy": "AllWorkers"}, "", "Failed"),
    ("FFF", {"maxFailedWorkers": "100%", "successPolicy": "AllWorkers"}, "", "Failed"),
    ("SSS", {"maxFailedWorkers": 1, "successPolicy": "AllWorkers"}, "", "Succeeded"),
    ("SFS", {"enableDynamicWorker": True, "successPolicy": "AllWorkers"}, "", "Failed"),
]


@pytest.mark.parametrize(("letters", "spec", "chief", "expected"), CASES)
def test_the_verdict_on_a_job_with_thresholds(letters: str, spec: dict[str, Any], chief: str, expected: str) -> None:
    job = job_with(letters, chief=bool(chief), **spec)
    result = planned(job, *pods_by_letter(letters, Chief=chief))
    assert [kind for kind in (C.SUCCEEDED, C.FAILED) if result.is_true(kind)] == ([expected] if expected else [])


def test_a_failure_that_is_done_without_is_told_once_and_changes_nothing_else() -> None:
    job = job_with("RFR", maxFailedWorkers=1)
    first = planned(job, *pods_by_letter("RFR"))
    assert (first.reasons, first.events[1].type) == (["ExitedWithCode", "ReplicaFailed"], "Warning")
    assert first.events[1].message == (
        "Worker-1 (exited with code 1) failed for good, so 1 of 3 have failed. The job goes on."
    )
    assert first.write_status
    assert remembered(first) == "1"
    assert not first.deletions("pods")
    assert not first.creations("pods")
    running = first.condition(C.RUNNING)
    assert running.message == "TFJob ns/mnist is running. 2/3 replicas ready, 1 failed."
    assert not planned(with_status(job, first.status), *pods_by_letter("RFR")).acts


def test_failures_outlive_a_suspension() -> None:
    job, asleep = (job_with("RFR", maxFailedWorkers=1, runPolicy={"suspend": suspend}) for suspend in (False, True))
    failed = planned(job, *pods_by_letter("RFR"))
    suspended = planned(with_status(asleep, failed.status), *pods_by_letter("RFR"))
    assert remembered(suspended) == "1"
    assert planned(with_status(job, suspended.status)).created_pods == ["Worker-0", "Worker-2"]


def test_what_failed_is_named_in_the_end_what_is_new_first() -> None:
    job = job_with("RRRRRR", maxFailedWorkers=4)
    first = planned(job, *pods_by_letter("RFFFFR"))
    end = planned(with_status(job, first.status), *pods_by_letter("RFFFFF"))
    failed = end.condition(C.FAILED)
    assert "because 5 Worker replica(s) failed. Worker-5: exited with code 1; Worker-1" in failed.message
    assert end.reasons == ["ExitedWithCode", "TFJobFailed"]
    assert remembered(end) == "1-5"


def test_a_job_whose_chief_has_succeeded_runs_while_its_workers_run_and_may_stall() -> None:
    policy = {"progressDeadlineSeconds": 60}
    job = job_with("RR", chief=True, minSucceededWorkers=2, runPolicy=policy)
    pods = pods_by_letter("RR", Chief="S")
    made = planned(job, *pods)
    assert made.is_true(C.RUNNING)
    assert made.condition(C.RUNNING).message == "TFJob ns/mnist is running."
    assert made.status.phase == "Running"
    of = with_status(job, made.status)
    later = plan_for(
        Observed(of, tuple(pods), services_of(of), progress=TrainingProgress(last_updated_time=NOW)), after(60)
    )
    assert later.is_true(C.STALLED)
    pending = planned(of, *pods_by_letter("PP", Chief="S"))
    assert not pending.is_true(C.RUNNING)
