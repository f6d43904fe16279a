"""`restartScope: Job`: all replicas restart when one has to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.controller.builders import NOW, ReadablePlan, after, make_job, make_pod, planned, started, with_status
from tfoperator.api.v1.types import ConditionType, TFJob
from tfoperator.controller.plan.actions import DeleteReason
from tfoperator.kube.objects import Pod

C = ConditionType
POLICIES = pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
WORKERS = ("Worker-0", "Worker-1")


def running(policy: str = "OnFailure", *, replicas: int = 2, **spec: Any) -> TFJob:
    """A job of some workers, all of which run, as its status knows."""
    run_policy = {"restartScope": "Job", **spec.pop("runPolicy", {})}
    job = started(make_job({"Worker": {"replicas": replicas, "restartPolicy": policy}}, runPolicy=run_policy, **spec))
    seen = planned(job, *(make_pod(f"Worker-{index}") for index in range(replicas)))
    return with_status(job, seen.status)


def next_one(job: TFJob, result: ReadablePlan) -> TFJob:
    return with_status(job, result.status)


def counted(result: ReadablePlan) -> tuple[int, int, dict[str, int]]:
    return result.status.restarts, result.status.job_restarts, result.status.replica_statuses["Worker"].restart_counts


def evicted(replica: str, **more: Any) -> Pod:
    return make_pod(replica, "Failed", reason="Evicted", **more)


@POLICIES
def test_one_lost_replica_restarts_all_and_counts_once(policy: str) -> None:
    job, lost = running(policy), evicted("Worker-1")
    seen = planned(job, make_pod("Worker-0"), lost)
    assert counted(seen) == (1, 1, {})
    assert seen.write_status_first
    assert seen.deleted_pods == ["Worker-0"], "it holds resources; the evicted one only its log"
    assert seen.deletions("pods")[0].reason is DeleteReason.RESTART
    assert not seen.creations("pods")
    assert seen.requeue_after == 1.0
    assert seen.status.replica_statuses["Worker"].started_indexes == ""
    restarting = seen.condition(C.RESTARTING)
    assert restarting.message == "job mnist is restarting all its replicas because of Worker-1 (Evicted)."
    assert [event.message for event in seen.events if event.reason == "TFJobRestarting"] == [restarting.message]
    assert "all replicas start again when the last old pod is gone" in seen.condition(C.RUNNING).message

    job = next_one(job, seen)
    early = planned(job, make_pod("Worker-0", deleted=NOW), lost, now=after(0.5))
    assert not early.acts
    due = planned(job, make_pod("Worker-0", deleted=NOW), lost, now=after(1))
    assert due.deleted_pods == ["Worker-1"]
    assert (due.events, due.write_status) == ((), False)
    waits = planned(job, make_pod("Worker-0", deleted=NOW), now=after(2))
    assert not waits.acts, "an old pod is still there"

    gone = planned(job, now=after(3))
    assert gone.created_pods == ["Worker-0", "Worker-1"]
    assert not gone.absent
    annotations = [create.body["metadata"]["annotations"] for create in gone.creations("pods")]
    assert annotations == [{"training.kubeflow.org/job-restarts": "1"}] * 2
    back = planned(job, *(make_pod(name, job_restarts=1) for name in WORKERS), now=after(4))
    assert counted(back) == (1, 1, {})
    assert back.is_true(C.RUNNING)
    assert not back.has_condition(C.RESTARTING)


@POLICIES
@pytest.mark.parametrize("gone", [(make_pod("Worker-1", deleted=NOW),), ()])
def test_a_pod_that_was_taken_is_not_waited_for(policy: str, gone: tuple[Pod, ...]) -> None:
    seen = planned(running(policy), make_pod("Worker-0"), *gone)
    assert counted(seen) == (1, 1, {})
    assert seen.deleted_pods == ["Worker-0"]
    assert seen.absent == (() if gone else ("mnist-worker-1",)), "unless the cache is merely stale"


@POLICIES
def test_who_fails_because_another_was_lost_has_not_failed(policy: str) -> None:
    lost = make_pod("Worker-1", deleted=NOW)
    seen = planned(running(policy), make_pod("Worker-0", "Failed", exit_code=1, finished=after(5)), lost, now=after(6))
    assert not seen.is_true(C.FAILED)
    assert counted(seen) == (1, 1, {})
    assert "Worker-0 (exited with code 1)" in seen.condition(C.RESTARTING).message


def test_who_failed_before_the_others_were_lost_ends_the_job() -> None:
    first = make_pod("Worker-0", "Failed", exit_code=1, finished=NOW)
    aborted = make_pod("Worker-1", "Failed", exit_code=134, finished=after(2))
    seen = planned(running("ExitCode"), first, aborted, now=after(3))
    assert seen.is_true(C.FAILED)
    assert counted(seen) == (0, 0, {})
    together = make_pod("Worker-1", "Failed", exit_code=134, finished=NOW)
    assert not planned(running("ExitCode"), first, together, now=after(3)).is_true(C.FAILED)


def test_a_worker_that_failed_for_good_stays_as_it_is() -> None:
    job = running("ExitCode", replicas=3, maxFailedWorkers=1)
    pods = [make_pod("Worker-0"), make_pod("Worker-1"), make_pod("Worker-2", "Failed", exit_code=1)]
    job = next_one(job, planned(job, *pods))
    seen = planned(job, pods[0], evicted("Worker-1"), pods[2], now=after(60))
    assert seen.deleted_pods == list(WORKERS)
    assert seen.status.replica_statuses["Worker"].failed_indexes == "2"
    assert planned(next_one(job, seen), pods[2], now=after(61)).created_pods == list(WORKERS)


def test_a_status_that_is_behind_the_pods_neither_counts_nor_restarts() -> None:
    behind = running()
    result = planned(behind, make_pod("Worker-0", "Pending", job_restarts=1))
    assert counted(result) == (1, 1, {})
    assert result.created_pods == ["Worker-1"]
    assert not result.deletions("pods")
    assert not result.absent


def test_where_counting_ends_a_replica_restarts_alone() -> None:
    job = started(running(), job_restarts=1_000_000)
    pods = [make_pod("Worker-0", job_restarts=1_000_000), evicted("Worker-1", job_restarts=1_000_000)]
    assert planned(job, *pods, now=after(600)).deleted_pods == ["Worker-1"]
