"""Pods that fail, vanish or are taken away: who is restarted, when, and how it is counted."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import (
    NOW,
    ReadablePlan,
    after,
    make_job,
    make_pod,
    planned,
    started,
    terminated,
    with_status,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import ReplicaStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.actions import Create, Delete, DeleteReason
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import PodCondition
from tfoperator.report.job import taken_replicas

C = ConditionType
EVERY_POLICY = pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
RETRYING = pytest.mark.parametrize("policy", ["OnFailure", "Always", "ExitCode"])
AT_ONCE = plan_options(restart_delay_base=0.0)
LATER = after(3600)


def job_of(policy: str, *, replicas: int = 2, knows: str = "0-1", counts: dict[str, int] | None = None) -> TFJob:
    """A running job of some workers whose status knows the pods of the given indexes."""
    job = started(make_job({"Worker": {"replicas": replicas, "restartPolicy": policy}}))
    running = planned(job, *(make_pod(f"Worker-{i}") for i in range(replicas)))
    account = {"restart_counts": counts or {}, "restarts": sum((counts or {}).values())}
    worker = ReplicaStatus(active=replicas, ready=replicas, started_indexes=knows, **account)
    return started(job, conditions=running.status.conditions, replica_statuses={"Worker": worker})


def counts(result: Any) -> dict[str, int]:
    return dict(result.status.replica_statuses["Worker"].restart_counts)


@RETRYING
def test_a_failed_pod_is_counted_at_once_deleted_after_its_delay_and_then_made_again(policy: str) -> None:
    job, other = job_of(policy), make_pod("Worker-0")
    failed = make_pod("Worker-1", "Failed", exit_code=137)

    result = planned(job, other, failed)
    assert counts(result) == {"1": 1}
    assert result.write_status
    assert not result.deletions("pods")
    assert (result.requeue_after, result.reasons) == (1.0, ["TFJobRestarting", "ExitedWithCode"])
    assert result.events[0].type == "Warning"

    job = with_status(job, result.status)
    early = planned(job, other, failed, now=after(0.5))
    assert not early.acts
    assert early.requeue_after == 0.5

    due = planned(job, other, failed, now=after(1))
    assert due.deleted_pods == ["Worker-1"]
    assert due.deletions("pods")[0].reason is DeleteReason.RESTART
    assert due.deletions("pods")[0].grace_period_seconds is None
    assert due.created_pods == ["Worker-1"]
    assert not due.write_status, "the count is durable already"
    assert not due.events
    [(deletion, creation)] = [chain for phase in due.phases for chain in phase.chains]
    assert isinstance(deletion, Delete)
    assert isinstance(creation, Create)
    assert (deletion.uid, deletion.name) == (failed.metadata.uid, creation.name)

    gone = planned(job, other, now=after(2))
    assert gone.created_pods == ["Worker-1"]
    assert gone.creations("pods")[0].body["metadata"]["annotations"] == {"training.kubeflow.org/restarts": "1"}
    assert counts(gone) == {"1": 1}

    back = planned(with_status(job, gone.status), other, make_pod("Worker-1", restarts_before=1), now=after(3))
    assert back.is_true(C.RUNNING)
    assert not back.has_condition(C.RESTARTING)
    assert counts(back) == {"1": 1}
    assert back.status.restarts == 1


def changed(pod: Pod, **meta: Any) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **meta))


FAILED = make_pod("Worker-1", "Failed", exit_code=137)


@pytest.mark.parametrize(
    "pods",
    [
        (changed(FAILED, finalizers=("example.org/keep",)),),
        (make_pod("Worker-1", "Unknown", exit_code=137),),
        (changed(FAILED, name="another"),),
        (FAILED, changed(FAILED, name="twin", uid="twin")),
    ],
    ids=["it may stay", "its node is lost", "adopted under another name", "beside another"],
)
def test_a_failed_pod_whose_name_may_not_get_free_at_once_has_no_successor_yet(pods: tuple[Pod, ...]) -> None:
    result = planned(job_of("OnFailure"), make_pod("Worker-0"), *pods, now=LATER)
    assert set(result.deleted_pods) == {"Worker-1"}
    assert not result.created_pods


@EVERY_POLICY
@pytest.mark.parametrize(
    "lost",
    [
        make_pod("Worker-1", "Failed", reason="Evicted"),
        make_pod("Worker-1", "Failed", exit_code=1, reason="Preempting"),
        make_pod("Worker-1", "Failed", exit_code=1, conditions=(PodCondition("DisruptionTarget", "True"),)),
        make_pod("Worker-1", "Failed", reason="NodeLost"),
        make_pod("Worker-1", "Failed", reason="UnexpectedAdmissionError"),
        make_pod("Worker-1", "Failed", reason="OutOfcpu"),
        make_pod("Worker-1", "Failed", containers=(terminated(255, reason="Unknown"),)),
        make_pod("Worker-1", "Unknown"),
    ],
)
def test_what_kubernetes_did_is_retried(policy: str, lost: Pod) -> None:
    result = planned(job_of(policy), make_pod("Worker-0"), lost, now=LATER)
    assert result.deleted_pods == ["Worker-1"]
    assert result.write_status_first, "the count is durable before its pod has gone"
    assert result.is_true(C.RESTARTING)
    assert counts(result) == {"1": 1}


@EVERY_POLICY
@pytest.mark.parametrize(
    "leaving",
    [
        make_pod("Worker-1", deleted=NOW),
        make_pod("Worker-1", "Pending", deleted=NOW),
        # The exit code after SIGTERM means nothing for the job.
        make_pod("Worker-1", "Failed", exit_code=1, finished=after(1), deleted=NOW),
        make_pod("Worker-1", "Succeeded", exit_code=0, finished=after(1), deleted=NOW),
    ],
)
def test_a_pod_that_is_being_deleted_is_restarting_not_failed(policy: str, leaving: Pod) -> None:
    job = job_of(policy)
    result = planned(job, make_pod("Worker-0"), leaving, now=after(2))
    assert result.is_true(C.RESTARTING)
    assert counts(result) == {"1": 1}
    assert not result.creations("pods"), "its name is still taken"
    assert not result.deletions("pods")
    job = with_status(job, result.status)
    assert not planned(job, make_pod("Worker-0"), leaving, now=after(3)).acts
    gone = planned(job, make_pod("Worker-0"), now=after(4))
    assert gone.created_pods == ["Worker-1"]
    assert counts(gone) == {"1": 1}


@EVERY_POLICY
def test_a_vanished_pod_is_counted_before_it_is_made_again(policy: str) -> None:
    job = job_of(policy, counts={"1": 4})
    result = planned(job, make_pod("Worker-0"))
    assert result.created_pods == ["Worker-1"]
    assert counts(result) == {"1": 5}
    assert result.write_status_first
    noted = result.creations("pods")[0].body["metadata"]["annotations"]
    assert noted == {"training.kubeflow.org/restarts": "5", "training.kubeflow.org/disruptions": "1"}
    assert result.absent == ("mnist-worker-1",)
    assert result.is_true(C.RESTARTING)
    assert result.reasons == ["TFJobRestarting"]
    job = with_status(job, result.status)
    refused = planned(job, make_pod("Worker-0"), now=after(1))
    assert (refused.created_pods, counts(refused), refused.absent) == (["Worker-1"], {"1": 5}, ())
    later = planned(job, make_pod("Worker-0"), make_pod("Worker-1", restarts_before=5))
    assert counts(later) == {"1": 5}


@pytest.mark.parametrize(
    ("pod", "now", "forced", "requeue"),
    [
        (make_pod("Worker-1", "Unknown", deleted=NOW), after(59), False, 1.0),
        (make_pod("Worker-1", "Unknown", deleted=NOW), after(60), True, None),
        (make_pod("Worker-1", "Running", reason="NodeLost", deleted=NOW), after(61), True, None),
        (make_pod("Worker-1", "Unknown", deleted=NOW, grace=0), after(600), False, None),
        (make_pod("Worker-1", "Running", deleted=NOW), after(600), False, None),
    ],
)
def test_a_pod_on_a_lost_node_is_deleted_by_force(pod: Pod, now: datetime, forced: bool, requeue: float | None) -> None:
    result = planned(job_of("OnFailure"), make_pod("Worker-0"), pod, now=now, options=AT_ONCE)
    assert result.deleted_pods == (["Worker-1"] if forced else [])
    if forced:
        assert result.deletions("pods")[0].grace_period_seconds == 0
        assert result.deletions("pods")[0].reason is DeleteReason.NODE_LOST
    assert result.requeue_after == requeue


def test_a_restart_beyond_what_is_counted_is_told_once() -> None:
    job = make_job({"Worker": {"restartPolicy": "OnFailure"}})
    jester = msgspec.structs.replace(terminated(1), restart_count=10**12)
    failed = make_pod("Worker-0", "Failed", containers=(jester,))
    first = planned(job, failed)
    assert "TFJobRestarting" in first.reasons
    assert first.status.restarts == 1_000_000
    second = planned(with_status(job, first.status), failed)
    assert not second.write_status
    assert not second.events


@RETRYING
def test_a_restart_is_counted_also_if_its_pod_is_first_seen_after_its_index_was_scaled_away(policy: str) -> None:
    # Worker-1 vanished and was made again, but the watch lost that; then the job was scaled down.
    job = job_of(policy, replicas=1, knows="0-1")
    result = planned(job, make_pod("Worker-0"), make_pod("Worker-1", restarts_before=1))
    assert result.deleted_pods == ["Worker-1"]
    assert counts(result) == {"1": 1}
    assert result.status.restarts == 1
    assert result.write_status_first


def test_a_restarted_replica_whose_annotation_was_stripped_is_not_restarted_again_and_again() -> None:
    """A webhook may take our annotations away: then the new pod doesn't show that it is the restart."""
    job = job_of("OnFailure")
    failed = planned(job, make_pod("Worker-0"), make_pod("Worker-1", "Failed", exit_code=137), now=after(60))
    assert counts(failed) == {"1": 1}
    job = with_status(job, failed.status)
    stripped = make_pod("Worker-1", created=after(61), start=after(62))
    again = planned(job, make_pod("Worker-0"), stripped, now=after(70))
    assert not again.deletions("pods")
    assert again.is_true(C.RUNNING)
    assert counts(again) == {"1": 1}


def test_an_eviction_that_hides_restarts_in_place_counts_and_rests_on_the_pod() -> None:
    """Some kubelets report no container once they have evicted: then the pod shows less than the status knows."""
    evicted = make_pod("Worker-0", "Failed", reason="Evicted", restarts_before=1)
    result = planned(job_of("OnFailure", replicas=1, knows="0", counts={"0": 3}), evicted)
    assert (counts(result), result.absent) == ({"0": 4}, (evicted.metadata.name,))
    assert "0" not in result.status.replica_statuses["Worker"].started_indexes
    again = planned(job_of("OnFailure", replicas=1, knows="", counts={"0": 4}), evicted)
    assert (counts(again), again.absent) == ({"0": 4}, ())


# `restartScope: Job`: all replicas restart when one has to.

WORKERS = ("Worker-0", "Worker-1")


def running(policy: str = "OnFailure", *, replicas: int = 2, **spec: Any) -> TFJob:
    """A job of some workers, all of which run, as its status knows."""
    run_policy = {"restartScope": "Job", **spec.pop("runPolicy", {})}
    job = started(make_job({"Worker": {"replicas": replicas, "restartPolicy": policy}}, runPolicy=run_policy, **spec))
    result = planned(job, *(make_pod(f"Worker-{index}") for index in range(replicas)))
    return with_status(job, result.status)


def next_job(job: TFJob, result: ReadablePlan) -> TFJob:
    return with_status(job, result.status)


def counted(result: ReadablePlan) -> tuple[int, int, dict[str, int]]:
    return result.status.restarts, result.status.job_restarts, result.status.replica_statuses["Worker"].restart_counts


def evicted(replica: str, **more: Any) -> Pod:
    return make_pod(replica, "Failed", reason="Evicted", **more)


@EVERY_POLICY
def test_one_lost_replica_restarts_all_and_counts_once(policy: str) -> None:
    job, lost = running(policy), evicted("Worker-1")
    result = planned(job, make_pod("Worker-0"), lost)
    assert counted(result) == (1, 1, {})
    assert result.write_status_first
    assert result.deleted_pods == ["Worker-0", "Worker-1"]
    assert result.deletions("pods")[0].reason is DeleteReason.RESTART
    assert not result.creations("pods")
    assert result.status.replica_statuses["Worker"].started_indexes == ""
    restarting = result.condition(C.RESTARTING)
    lost_one = "Worker-1 (evicted by the kubelet of its node: Evicted)"
    assert restarting.message == (
        f"job mnist is restarting all its replicas because of {lost_one}. "
        "This counts as a disruption, not as a failure."
    )
    assert [event.message for event in result.events if event.reason == "TFJobRestarting"] == [restarting.message]
    [taken] = taken_replicas([Event(reason="TFJobRestarting", message=restarting.message)])
    assert (taken.replica, taken.cause) == ("worker-1", "evicted by the kubelet of its node: Evicted")
    assert "all replicas restart when the last old pod is gone" in result.condition(C.RUNNING).message

    job = next_job(job, result)
    waits = planned(job, make_pod("Worker-0", deleted=NOW), now=after(2))
    assert not waits.acts, "an old pod is still there"

    gone = planned(job, now=after(3))
    assert gone.created_pods == ["Worker-0", "Worker-1"]
    assert not gone.absent
    annotations = [create.body["metadata"]["annotations"] for create in gone.creations("pods")]
    noted = {"training.kubeflow.org/job-restarts": "1", "training.kubeflow.org/job-disruptions": "1"}
    assert annotations == [noted] * 2
    assert not planned(running(policy), make_pod("Worker-0"), now=after(3)).requeue_after, "nothing is waited for"
    back = planned(job, *(make_pod(name, job_restarts=1) for name in WORKERS), now=after(4))
    assert counted(back) == (1, 1, {})
    assert back.is_true(C.RUNNING)
    assert not back.has_condition(C.RESTARTING)


@EVERY_POLICY
@pytest.mark.parametrize("gone", [(make_pod("Worker-1", deleted=NOW),), ()])
def test_a_pod_that_was_taken_is_not_waited_for(policy: str, gone: tuple[Pod, ...]) -> None:
    result = planned(running(policy), make_pod("Worker-0"), *gone)
    assert counted(result) == (1, 1, {})
    assert result.deleted_pods == ["Worker-0"]
    assert result.absent == (() if gone else ("mnist-worker-1",)), "unless the cache is merely stale"


@EVERY_POLICY
def test_who_fails_because_another_was_lost_has_not_failed(policy: str) -> None:
    lost = make_pod("Worker-1", deleted=NOW)
    result = planned(
        running(policy), make_pod("Worker-0", "Failed", exit_code=1, finished=after(5)), lost, now=after(6)
    )
    assert not result.is_true(C.FAILED)
    assert counted(result) == (1, 1, {})
    assert "Worker-0 (exited with code 1)" in result.condition(C.RESTARTING).message


def scoped(job: TFJob, scope: str) -> TFJob:
    """The job after an edit of its restartScope."""
    policy = msgspec.structs.replace(job.spec.policy, restart_scope=scope)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, run_policy=policy))


def test_a_failure_that_its_replica_has_counted_is_no_second_failure_of_all_together() -> None:
    job, failed = job_of("OnFailure"), make_pod("Worker-1", "Failed", exit_code=137)
    policy = msgspec.structs.replace(job.spec.policy, backoff_limit=1)
    job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, run_policy=policy))
    other = make_pod("Worker-0")
    first = planned(job, other, failed)
    assert counted(first) == (1, 0, {"1": 1})
    job = scoped(with_status(job, first.status), "Job")
    together = planned(job, other, failed, now=after(0.5))
    assert not together.is_true(C.FAILED)
    assert (*counted(together), together.status.job_disruptions) == (2, 1, {"1": 1}, 1)
    assert together.status.disruption_backoff is None, "nothing was taken from the job"
    assert together.deleted_pods == ["Worker-0"]
    # A failure that is new counts, beside the failure that was counted before.
    again = planned(job, make_pod("Worker-0", "Failed", exit_code=137), failed, now=after(0.5))
    assert again.is_true(C.FAILED)
    # A disruption that is new is one: the failure of before does not hide it.
    taken = planned(job, make_pod("Worker-0", deleted=after(0.2)), failed, now=after(0.5))
    assert (*counted(taken), taken.status.job_disruptions) == (2, 1, {"1": 1}, 1)


def test_a_failure_that_was_counted_for_all_is_no_second_failure_of_its_replica() -> None:
    job = running(runPolicy={"backoffLimit": 1})
    failed = make_pod("Worker-1", "Failed", exit_code=137)
    first = planned(job, make_pod("Worker-0"), failed)
    assert first.status.job_restarts == 1
    alone = planned(scoped(with_status(job, first.status), "Replica"), make_pod("Worker-0"), failed, now=LATER)
    assert not alone.is_true(C.FAILED)
    assert alone.status.restarts == 1
    assert sorted(alone.deleted_pods) == ["Worker-0", "Worker-1"]


def test_who_failed_before_the_others_were_lost_ends_the_job() -> None:
    first = make_pod("Worker-0", "Failed", exit_code=1, finished=NOW)
    aborted = make_pod("Worker-1", "Failed", exit_code=134, finished=after(2))
    result = planned(running("ExitCode"), first, aborted, now=after(3))
    assert result.is_true(C.FAILED)
    assert counted(result) == (0, 0, {})
    together = make_pod("Worker-1", "Failed", exit_code=134, finished=NOW)
    assert not planned(running("ExitCode"), first, together, now=after(3)).is_true(C.FAILED)


def test_a_worker_that_failed_for_good_stays_as_it_is() -> None:
    job = running("ExitCode", replicas=3, maxFailedWorkers=1)
    pods = [make_pod("Worker-0"), make_pod("Worker-1"), make_pod("Worker-2", "Failed", exit_code=1)]
    job = next_job(job, planned(job, *pods))
    result = planned(job, pods[0], evicted("Worker-1"), pods[2], now=after(60))
    assert result.deleted_pods == list(WORKERS)
    assert result.status.replica_statuses["Worker"].failed_indexes == "2"
    assert planned(next_job(job, result), pods[2], now=after(61)).created_pods == list(WORKERS)


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


@pytest.mark.parametrize("code", [1, 137])
def test_a_replica_that_restarts_after_its_peer_has_ended_is_warned_of_once(code: int) -> None:
    job = job_of("OnFailure")
    ended, failed = make_pod("Worker-1", "Succeeded", exit_code=0), make_pod("Worker-0", "Failed", exit_code=code)
    result = planned(job, ended, failed)
    [warning] = [event for event in result.events if event.reason == "RestartedAlone"]
    assert warning.type == "Warning"
    assert warning.message.startswith("worker-0 is restarted after worker-1 had ended.")
    assert "restartScope to Job" in warning.message
    assert "RestartedAlone" not in planned(with_status(job, result.status), ended, failed, now=after(0.5)).reasons
    assert "RestartedAlone" not in planned(job, make_pod("Worker-1"), failed).reasons, "its peer runs"


def test_a_restart_in_place_after_the_peer_has_ended_is_warned_of_once() -> None:
    job = job_of("OnFailure")
    ended, again = make_pod("Worker-1", "Succeeded", exit_code=0), make_pod("Worker-0", in_place=1)
    result = planned(job, ended, again)
    assert counts(result) == {"0": 1}
    assert result.reasons.count("RestartedAlone") == 1
    assert "RestartedAlone" not in planned(with_status(job, result.status), ended, again).reasons


def test_who_needs_no_peer_is_not_warned_of() -> None:
    job = started(make_job({"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}, "PS": {"replicas": 1}}))
    pods = make_pod("Worker-1", "Succeeded", exit_code=0), make_pod("Worker-0", "Failed", exit_code=1), make_pod("PS-0")
    assert "RestartedAlone" not in planned(job, *pods).reasons, "servers keep what it has trained"
    together = started(
        make_job({"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}, runPolicy={"restartScope": "Job"})
    )
    assert "RestartedAlone" not in planned(together, *pods[:2]).reasons
