"""The stages of a job's life: not ours, invalid, suspended, out of time, finished, expired."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import (
    NOW,
    after,
    make_job,
    make_pod,
    plan_for,
    planned,
    services_of,
    started,
    with_status,
)
from tfoperator.api.kueue.queues import MULTIKUEUE_ORIGIN_LABEL
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.controller.plan.values.actions import DeleteReason
from tfoperator.controller.plan.values.observed import Observed, QueueGate, UnkeptLogs
from tfoperator.kube.views.objects import Pod

C = ConditionType


@pytest.mark.parametrize(
    ("managed_by", "ours"),
    [("kueue.x-k8s.io/multikueue", False), ("someone", False), ("kubeflow.org/training-operator", True), ("", True)],
)
def test_a_job_of_another_manager_is_untouched(managed_by: str, ours: bool) -> None:
    job = make_job({"Worker": 1}, runPolicy={"managedBy": managed_by})
    assert planned(job, services=()).acts is ours
    assert planned(job, services=(), problems=("spec: bad",)).acts is ours


# In a queue.


def test_a_job_tells_when_it_begins_to_wait_in_its_queue_and_when_it_is_admitted() -> None:
    job, reasons = make_job({"Worker": 1}), []
    for gate in (
        QueueGate("Pending", "no quota"),
        QueueGate("Pending", "no quota yet"),
        QueueGate("Admitted", "research", admitted=True),
        QueueGate("Preempted", "another job is more important"),
    ):
        result = plan_for(Observed(job, services=services_of(job), gate=gate))
        reasons.append(result.reasons)
        job = with_status(job, result.status)
    assert reasons == [["TFJobQueued"], [], ["TFJobAdmitted"], ["TFJobQueued"]]


# Invalid.


def test_an_invalid_new_job_fails_with_its_problems_once() -> None:
    job = make_job({"Worker": 1})
    problems = ("spec.tfReplicaSpecs[Worker].replicas: must be 0 or more, but is -1", "spec.x: bad")
    result = planned(job, services=(), problems=problems)
    failed = result.status.conditions[-1]
    assert (failed.type, failed.reason) == ("Failed", "TFJobInvalid")
    assert failed.message == f"TFJob ns/mnist is invalid: {problems[0]}; {problems[1]}"
    assert [(e.type, e.reason) for e in result.events] == [("Warning", "TFJobInvalid")]
    assert (result.status.phase, result.status.completion_time) == ("Failed", NOW)
    assert not [*result.creations("pods"), *result.creations("services")]
    begun = planned(job, make_pod("Worker-0"), problems=problems)
    assert (begun.status.phase, begun.changes_objects) == ("Unknown", False), "its first status was yet to be written"
    again = planned(with_status(job, result.status), services=(), problems=problems, now=after(60))
    assert not again.acts
    assert again.requeue_after is None


def test_a_job_that_became_invalid_while_it_ran_is_frozen_until_it_is_repaired() -> None:
    pods = make_pod("Worker-0"), make_pod("Worker-1")
    running = planned(started(make_job({"Worker": 2})), *pods)
    stalled = JobCondition("Stalled", "False", "TFJobProgresses", "", NOW, NOW)
    status = msgspec.structs.replace(running.status, operator_conditions=(stalled, *running.status.operator_conditions))
    job = make_job({"Worker": 2}, status=status)
    failed, problems = (pods[0], make_pod("Worker-1", "Failed", exit_code=1)), ("spec.successPolicy: bad",)
    frozen = planned(job, *failed, problems=problems)
    assert {frozen.condition(kind).status for kind in (C.RUNNING, C.READY, C.STALLED)} == {"Unknown"}
    assert frozen.condition(C.RUNNING).reason == "TFJobInvalid"
    assert "spec.successPolicy: bad" in frozen.condition(C.RUNNING).message
    assert (frozen.status.phase, frozen.reasons) == ("Unknown", ["TFJobInvalid"])
    assert not frozen.deletions("pods")
    assert not frozen.has_condition(C.FAILED)
    job = with_status(job, frozen.status)
    assert not planned(job, *failed, problems=problems, now=after(9)).acts
    assert not planned(job, *pods, problems=problems, now=after(9)).acts
    repaired = planned(job, *pods, now=after(9))
    assert (repaired.is_true(C.RUNNING), repaired.is_true(C.READY)) == (True, True)
    assert repaired.status.phase == "Running"


def test_a_job_that_cannot_be_decoded_is_told_what_is_wrong() -> None:
    spec = b'{"tfReplicaSpecs":{"Worker":{"replicas":"x"}}}'
    job = decode_tfjob(b'{"metadata":{"name":"mnist","namespace":"ns","uid":"u"},"spec":' + spec + b"}")
    assert job.decode_error
    result = planned(job, services=())
    assert "spec.tfReplicaSpecs[Worker].replicas" in result.status.conditions[-1].message
    held = planned(job, make_pod("Worker-0"), services=())
    assert not held.has_condition(C.FAILED), "its pods say that it has started"
    assert not held.deletions("pods")
    # Where its status cannot be read either, the report is always the same.
    job = TFJob(metadata=make_job({}).metadata, decode_error="spec: bad")
    first, second = (planned(job, services=(), now=now).status for now in (after(60), after(120)))
    assert first == second


@pytest.mark.parametrize(
    ("replica", "field"),
    [
        (None, "spec.tfReplicaSpecs[Worker]: must not be null"),
        ({"template": None}, "spec.tfReplicaSpecs[Worker].template: is required"),
        ({"replicas": -1}, "spec.tfReplicaSpecs[Worker].replicas: must be from 0"),
        ({"replicas": 2**31 - 1}, "spec.tfReplicaSpecs[Worker].replicas: must be from 0"),
    ],
)
def test_what_cannot_be_acted_on_is_noticed_without_validation(replica: Any, field: str) -> None:
    job = make_job({"Worker": replica or {}})
    if replica is None:
        spec = msgspec.structs.replace(job.spec, tf_replica_specs={"Worker": None})
        job = msgspec.structs.replace(job, spec=spec)
    result = planned(job, services=())
    assert field in result.status.conditions[-1].message
    assert not result.creations("pods")


# Suspended.


def test_a_job_created_suspended_makes_nothing_and_has_no_start() -> None:
    result = planned(make_job({"Worker": 2}, runPolicy={"suspend": True}), services=())
    assert not [*result.creations("pods"), *result.creations("services")]
    last = result.status.conditions[-1]
    assert (last.type, last.reason, last.message) == ("Suspended", "TFJobSuspended", "TFJob mnist is suspended.")
    assert [c.type for c in result.status.conditions] == [C.CREATED, C.SUSPENDED]
    assert result.status.start_time is None
    assert (result.status.phase, result.reasons) == ("Pending", ["TFJobSuspended"])
    assert not planned(make_job({"Worker": 2}, status=result.status, runPolicy={"suspend": True}), services=()).acts


def test_suspending_lets_go_of_everything_durably_first() -> None:
    pods = (make_pod("Worker-0"), make_pod("Worker-1"), make_pod("PS-0"))
    running = planned(started(make_job({"Worker": 2, "PS": 1})), *pods)
    result = planned(make_job({"Worker": 2, "PS": 1}, status=running.status, runPolicy={"suspend": True}), *pods)
    assert sorted(result.deleted_pods) == ["PS-0", "Worker-0", "Worker-1"]
    assert len(result.deletions("services")) == 3
    assert {d.reason for d in (*result.deletions("pods"), *result.deletions("services"))} == {DeleteReason.SUSPEND}
    assert result.write_status_first
    assert not result.is_true(C.RUNNING)
    assert not result.is_true(C.READY)
    assert [(s.active, s.started_indexes) for s in result.status.replica_statuses.values()] == [(0, "")] * 2


def test_resuming_starts_over_with_a_new_start_time_and_counts_no_restart() -> None:
    replicas = {"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}
    first = planned(started(make_job(replicas)), make_pod("Worker-0"), make_pod("Worker-1"))
    held = planned(
        make_job(replicas, status=first.status, runPolicy={"suspend": True}), make_pod("Worker-0"), make_pod("Worker-1")
    )
    job = make_job(replicas, status=held.status)
    leaving = make_pod("Worker-1", deleted=after(50))
    waits = planned(job, leaving, services=(), now=after(60))
    assert not waits.changes_objects, "old and new pods would run together"
    asleep = waits.condition(C.SUSPENDED)
    assert (asleep.status, asleep.message) == ("True", "TFJob mnist will be resumed when its last old pod is gone.")
    job = with_status(job, waits.status)
    assert not planned(job, leaving, services=(), now=after(61)).acts
    result = planned(job, services=(), now=after(70))
    assert result.created_pods == ["Worker-0", "Worker-1"]
    assert result.write_status_first, "or a new pod could be taken for an old one"
    resumed = result.condition(C.SUSPENDED)
    assert (resumed.status, resumed.reason, resumed.message) == ("False", "TFJobResumed", "TFJob mnist is resumed.")
    assert (result.status.start_time, result.status.restarts) == (after(70), 0)
    assert not result.has_condition(C.RESTARTING)
    assert (result.reasons, result.status.conditions[-1].type) == (["TFJobResumed"], C.CREATED)
    later = planned(with_status(job, result.status), make_pod("Worker-0"), now=after(99))
    assert (later.status.start_time, later.created_pods) == (after(70), ["Worker-1"])


@pytest.mark.parametrize("scope", ["Replica", "Job"])
def test_what_was_not_deleted_before_a_resumption_is_deleted_then(scope: str) -> None:
    """A deletion has failed, or waited for a log."""
    shape = {"Chief": 1, "Worker": {"replicas": 3, "restartPolicy": "OnFailure"}}
    running = started(make_job(shape, runPolicy={"restartScope": scope}))
    pods = make_pod("Chief-0"), make_pod("Worker-0"), make_pod("Worker-1", "Succeeded"), make_pod("Worker-2")
    policy = {"restartScope": scope, "suspend": True}
    held = planned(make_job(shape, status=planned(running, *pods).status, runPolicy=policy), *pods)
    assert held.write_status_first
    asleep = make_job(shape, status=held.status, runPolicy=policy)
    leaving = make_pod("Worker-1", "Succeeded", deleted=NOW)
    assert not planned(asleep, leaving, services=()).write_status, "what leaves is not completed again"
    awake = make_job(shape, status=held.status, runPolicy={"restartScope": scope})
    left = pods[1:3]
    result = planned(awake, *left)
    assert result.deleted_pods == ["Worker-0", "Worker-1"]
    assert {deletion.reason for deletion in result.deletions("pods")} == {DeleteReason.SUSPEND}
    assert not result.creations("pods")
    resumed = planned(with_status(awake, result.status), services=())
    had_succeeded = ["Worker-1"] if scope == "Job" else []
    assert resumed.created_pods == sorted(["Chief-0", "Worker-0", "Worker-2", *had_succeeded])
    assert resumed.status.restarts == 0


def test_a_suspended_jobs_pods_count_as_active_while_they_have_to_stay() -> None:
    """By that a queue knows when it may give the room to others."""
    replicas = {"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}
    pods = make_pod("Worker-0"), make_pod("Worker-1")
    running = planned(started(make_job(replicas)), *pods)
    asleep = make_job(replicas, status=running.status, runPolicy={"suspend": True})
    logs = UnkeptLogs(frozenset({pods[0].metadata.uid}), 30.0)
    held = plan_for(Observed(asleep, pods, services_of(asleep), unkept_logs=logs))
    assert (held.deleted_pods, held.status.replica_statuses["Worker"].active) == (["Worker-1"], 1)
    asleep = with_status(asleep, held.status)
    failed = planned(asleep, *pods)
    assert failed.status.replica_statuses["Worker"].active == 2, "the deletion of one more has failed"
    leaving = planned(with_status(asleep, failed.status), make_pod("Worker-0", deleted=NOW))
    assert leaving.status.replica_statuses["Worker"].active == 0


# Deadline and end.


@pytest.mark.parametrize(
    ("seconds", "elapsed", "ends", "requeue"),
    [
        (2, 0, False, 2.0),
        (2, 1.5, False, 0.5),
        (2, 2, True, None),
        (2, 3600, True, None),
        # Far moments are approached in steps, and a clock that was set back breaks nothing.
        (10**9, 0, False, 3600),
        (10**25, 0, False, 3600),
        (60, -(10**6), False, 3600),
    ],
)
def test_the_deadline_fires_by_itself(seconds: int, elapsed: float, ends: bool, requeue: float | None) -> None:
    job = started(make_job({"Worker": 1}, runPolicy={"activeDeadlineSeconds": seconds}))
    result = planned(job, make_pod("Worker-0"), now=after(elapsed))
    assert (result.is_true(C.FAILED), result.is_true(C.RUNNING)) == (ends, not ends)
    assert result.requeue_after == requeue
    if ends:
        message = "Job mnist has failed because it was active longer than specified deadline"
        assert result.status.conditions[-1].message == message
        assert result.stopped_pods == ["Worker-0"]
        assert result.status.completion_time == after(int(elapsed))


def finished_job(kind: str, policy: str = "None", **run_policy: Any) -> TFJob:
    conditions = (JobCondition("Created", "True"), JobCondition(kind, "True", f"TFJob{kind}", "", NOW, NOW))
    status = TFJobStatus(conditions=conditions, start_time=after(-60), completion_time=NOW)
    return make_job({"Worker": 4, "PS": 2}, status=status, runPolicy={"cleanPodPolicy": policy, **run_policy})


def all_pods(phase: str) -> tuple[Pod, ...]:
    return tuple(make_pod(f"{kind}-{i}", phase) for kind, count in (("Worker", 4), ("PS", 2)) for i in range(count))


@pytest.mark.parametrize(
    ("kind", "policy", "phase", "remaining"),
    [
        ("Succeeded", "All", "Running", 0),
        ("Succeeded", "Running", "Pending", 0),
        ("Succeeded", "Running", "Succeeded", 6),
        ("Succeeded", "None", "Succeeded", 6),
        ("Failed", "All", "Failed", 0),
        ("Failed", "Running", "Running", 0),
        ("Failed", "Running", "Failed", 6),
        ("Failed", "None", "Running", 6),
    ],
)
def test_what_is_left_of_a_finished_job(kind: str, policy: str, phase: str, remaining: int) -> None:
    result = planned(finished_job(kind, policy), *all_pods(phase))
    assert 6 - len(result.deletions("pods")) == remaining
    assert 6 - len(result.deletions("services")) == remaining
    assert not [*result.creations("pods"), *result.creations("services")]
    assert not result.stops
    assert not result.write_status
    assert result.requeue_after is None


@pytest.mark.parametrize(("kind", "completion"), [("Succeeded", NOW), ("Failed", NOW), ("Failed", None)])
@pytest.mark.parametrize(
    ("elapsed", "deleted", "requeue"), [(0, False, 3.0), (2.5, False, 0.5), (3, True, None), (9999, True, None)]
)
def test_the_time_to_live_counts_from_the_end(
    kind: str, completion: datetime | None, elapsed: float, deleted: bool, requeue: float | None
) -> None:
    job = finished_job(kind, "None", ttlSecondsAfterFinished=3)
    job = with_status(job, msgspec.structs.replace(job.status, completion_time=completion))
    result = planned(job, *all_pods("Succeeded"), now=after(elapsed))
    assert result.deletes_job is deleted
    assert result.requeue_after == requeue
    assert not result.deletions("pods")


def test_the_end_of_a_job_sets_the_timer_of_its_time_to_live() -> None:
    job = started(make_job({"Worker": 1}, runPolicy={"ttlSecondsAfterFinished": 60}))
    assert planned(job, make_pod("Worker-0", "Succeeded")).requeue_after == 60


def test_multikueue_deletes_the_job_that_it_has_brought_here_and_reads_its_end_before() -> None:
    """If it found the job gone, it would make it again: the job's end would be lost, or the job would run again."""
    brought = {MULTIKUEUE_ORIGIN_LABEL: "multikueue"}
    job = finished_job("Succeeded", ttlSecondsAfterFinished=0)
    job = msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, labels=brought))
    result = planned(job, *all_pods("Succeeded"), now=after(9999))
    assert not result.deletes_job
    assert result.requeue_after is None


def test_what_only_rides_along_is_no_reason_to_write() -> None:
    result = planned(started(make_job({"Worker": 1})), make_pod("Worker-0"))
    job = with_status(make_job({"Worker": 1}), result.status)
    worker = msgspec.structs.replace(result.status.replica_statuses["Worker"], started_indexes="")

    def changed(**changes: Any) -> TFJob:
        return with_status(job, msgspec.structs.replace(job.status, **changes))

    assert not planned(changed(replica_statuses={"Worker": worker}), make_pod("Worker-0")).write_status
    same = planned(changed(last_reconcile_time=after(-5)), make_pod("Worker-0"))
    assert not same.write_status
    assert same.status.last_reconcile_time == after(-5)
    let_go = msgspec.structs.replace(worker, started_indexes="0-1")
    assert planned(changed(replica_statuses={"Worker": let_go}), make_pod("Worker-0")).write_status
