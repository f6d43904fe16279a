"""`startDeadlineSeconds`: a job whose replicas have not all started in time fails, with the reason."""

from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import (
    NOW,
    ReadablePlan,
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
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import JobUsage, ReplicaStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.api.waiting import Reason, ReasonKind
from tfoperator.controller.plan.values.observed import Observed, Refusals
from tfoperator.kube.views.objects import Pod

DEADLINE = 600
PULLS = (waiting("ErrImagePull", "not found"),)
QUOTA = Reason(ReasonKind.QUOTA, "ResourceQuota q has no room for its pod", "request less")


def job_of(workers: int = 2, **policy: Any) -> TFJob:
    return started(make_job({"PS": 1, "Worker": workers}, runPolicy={"startDeadlineSeconds": DEADLINE, **policy}))


def look(job: TFJob, *pods: Pod, at: float, refusals: Refusals | None = None) -> ReadablePlan:
    return plan_for(Observed(job, pods, services_of(job), not_created=refusals), after(at))


def test_a_job_whose_replica_never_started_fails_with_the_reason_and_its_pods_are_stopped() -> None:
    pods = (make_pod("PS-0"), make_pod("Worker-0"), make_pod("Worker-1", "Pending", containers=PULLS))
    before = look(job_of(), *pods, at=DEADLINE - 1)
    assert not before.is_true(ConditionType.FAILED)
    assert before.requeue_after == 1
    over = look(job_of(), *pods, at=DEADLINE)
    failed = over.condition(ConditionType.FAILED)
    assert failed.reason == "StartDeadlineExceeded"
    assert failed.message.startswith(
        "Job mnist has failed because some of its replicas have not started within the 600 seconds of "
        "startDeadlineSeconds: Worker-1 waits: ImagePullBackOff: image example.com/train:1 can't be pulled: the "
        "registry does not have this image"
    )
    assert ("Warning", "StartDeadlineExceeded") in [(event.type, event.reason) for event in over.events]
    assert {"PS-0", "Worker-0"} <= {*over.stopped_pods, *over.deleted_pods}


def test_a_pod_that_could_not_be_made_and_one_without_a_known_reason_are_named() -> None:
    over = look(job_of(), make_pod("PS-0", "Pending"), at=DEADLINE, refusals={(ReplicaType.WORKER, 0): QUOTA})
    message = over.condition(ConditionType.FAILED).message
    assert f"Worker-0 and Worker-1 wait: {QUOTA}" in message
    assert "PS-0 waits: its pod has not started" in message


def test_a_job_all_of_whose_replicas_have_started_or_ended_goes_on() -> None:
    pods = (make_pod("PS-0"), make_pod("Worker-0", ready=False), make_pod("Worker-1", "Succeeded", exit_code=0))
    on = look(job_of(), *pods, at=DEADLINE + 1)
    assert not on.is_true(ConditionType.FAILED)
    assert on.requeue_after is None


def test_a_replica_that_has_started_once_may_wait_for_its_restart() -> None:
    job = job_of()
    worker = ReplicaStatus(restarts=1, restart_counts={"1": 1}, started_indexes="0")
    job = with_status(job, msgspec.structs.replace(job.status, replica_statuses={"Worker": worker}))
    again = make_pod("Worker-1", "Pending", restarts_before=1, containers=PULLS)
    assert not look(job, make_pod("PS-0"), make_pod("Worker-0"), again, at=9999).is_true(ConditionType.FAILED)
    joint = with_status(job, msgspec.structs.replace(job.status, job_restarts=1, replica_statuses={}))
    pods = [make_pod(name, "Pending", job_restarts=1) for name in ("PS-0", "Worker-0", "Worker-1")]
    assert not look(joint, *pods, at=9999).is_true(ConditionType.FAILED)


def test_a_worker_that_is_added_later_has_no_deadline() -> None:
    job = job_of(workers=3)
    usage = JobUsage(phase="training", since=NOW)
    job = with_status(job, msgspec.structs.replace(job.status, usage=usage))
    run = (make_pod("PS-0"), make_pod("Worker-0"), make_pod("Worker-1"))
    assert not look(job, *run, at=9999).is_true(ConditionType.FAILED)
    new = make_pod("Worker-2", "Pending", created=after(9000), start=None)
    assert not look(job, *run, new, at=9999).is_true(ConditionType.FAILED)


def test_a_worker_that_is_added_to_a_training_before_the_deadline_has_no_deadline_either() -> None:
    job = job_of(workers=3)
    job = with_status(job, msgspec.structs.replace(job.status, usage=JobUsage(phase="training", since=after(60))))
    run = (make_pod("PS-0"), make_pod("Worker-0"), make_pod("Worker-1"))
    added = make_pod("Worker-2", "Pending", created=after(61), start=None)
    for at in (DEADLINE - 1, DEADLINE):
        on = look(job, *run, added, at=at)
        assert not on.is_true(ConditionType.FAILED)
        assert "StartDeadlineExceeded" not in [event.reason for event in on.events]
    from_the_beginning = make_pod("Worker-2", "Pending", created=after(60), start=None)
    assert look(job, *run, from_the_beginning, at=DEADLINE).is_true(ConditionType.FAILED)


def test_the_time_in_which_a_job_is_suspended_or_waits_in_its_queue_does_not_count() -> None:
    job = started(make_job({"Worker": 1}, runPolicy={"startDeadlineSeconds": DEADLINE, "suspend": True}))
    asleep = look(job, at=9999)
    assert not asleep.is_true(ConditionType.FAILED)
    awake = make_job({"Worker": 1}, runPolicy={"startDeadlineSeconds": DEADLINE}, status=asleep.status)
    resumed = look(awake, at=10_000)
    assert not resumed.is_true(ConditionType.FAILED)
    assert resumed.requeue_after == DEADLINE
    late = look(with_status(awake, resumed.status), make_pod("Worker-0", "Pending", created=after(10_000)), at=10_600)
    assert late.is_true(ConditionType.FAILED)


def test_success_comes_first() -> None:
    done = (make_pod("PS-0", "Pending"), make_pod("Worker-0", "Succeeded", exit_code=0), make_pod("Worker-1"))
    assert look(job_of(), *done, at=DEADLINE).is_true(ConditionType.SUCCEEDED)


@pytest.mark.parametrize("policy", [{}, {"startDeadlineSeconds": None}])
def test_without_it_a_job_waits_for_ever(policy: dict[str, Any]) -> None:
    job = started(make_job({"Worker": 1}, runPolicy=policy))
    assert not planned(job, make_pod("Worker-0", "Pending"), now=after(10**7)).is_true(ConditionType.FAILED)
