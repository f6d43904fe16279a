"""Disruptions of a job: counted apart from failures, seen by no limit, named, and followed by growing delays."""

from datetime import UTC, datetime
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
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.kube.views.pod_status import ContainerState, ContainerStateTerminated, ContainerStatus, PodCondition

C = ConditionType
EVERY_POLICY = pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
OTHER = make_pod("Worker-0")


def running(policy: str = "OnFailure", *, replicas: int = 2, run_policy: dict[str, Any] | None = None) -> TFJob:
    """A job of some workers, all of which run, as its status knows; without a restart to spare."""
    limits = {"backoffLimit": 0} if run_policy is None else run_policy
    job = started(make_job({"Worker": {"replicas": replicas, "restartPolicy": policy}}, runPolicy=limits))
    result = planned(job, *(make_pod(f"Worker-{index}") for index in range(replicas)))
    return with_status(job, result.status)


def disrupted(why: str, **more: Any) -> Pod:
    return make_pod("Worker-1", conditions=(PodCondition("DisruptionTarget", "True", why),), node="n1", **more)


TAKEN = {
    "deleted, and gone": None,
    "deleted": make_pod("Worker-1", deleted=NOW),
    "deleted, and ended by that": make_pod("Worker-1", "Failed", exit_code=143, finished=after(1), deleted=NOW),
    "drained": disrupted("EvictionByEvictionAPI", deleted=NOW),
    "preempted": disrupted("PreemptionByScheduler", deleted=NOW),
    "node lost": disrupted("DeletionByTaintManager", deleted=NOW),
    "node gone": disrupted("DeletionByPodGC", phase="Failed"),
    "node shut down": disrupted("TerminationByKubelet", phase="Failed", reason="Terminated", exit_code=143),
    "node shut down, and ended by that with 0": disrupted("TerminationByKubelet", phase="Succeeded", exit_code=0),
    "no memory on the node": disrupted(
        "TerminationByKubelet", phase="Failed", reason="Evicted", message="The node was low on resource: memory."
    ),
    "node not ready": make_pod("Worker-1", "Unknown", node="n1"),
    "refused": make_pod("Worker-1", "Failed", reason="OutOfcpu", node="n1"),
    "node crashed": make_pod("Worker-1", "Failed", containers=(terminated(255, reason="Unknown"),), node="n1"),
}
EVERYTHING_TAKEN = pytest.mark.parametrize("lost", TAKEN.values(), ids=TAKEN.keys())


def with_lost(lost: Pod | None, *others: Pod) -> tuple[Pod, ...]:
    return (*others, *(() if lost is None else (lost,)))


def numbers(result: ReadablePlan) -> tuple[int, int]:
    return result.status.restarts, result.status.disruptions


@EVERY_POLICY
@EVERYTHING_TAKEN
def test_no_limit_on_failures_sees_what_was_taken(policy: str, lost: Pod | None) -> None:
    result = planned(running(policy), *with_lost(lost, OTHER), now=after(2))
    assert not result.is_true(C.FAILED)
    assert result.is_true(C.RESTARTING)
    assert numbers(result) == (1, 1)
    worker = result.status.replica_statuses["Worker"]
    assert (worker.restart_counts, worker.disruption_counts, worker.disruptions) == ({"1": 1}, {"1": 1}, 1)
    assert worker.failed_indexes == ""


@EVERYTHING_TAKEN
def test_it_is_counted_once_and_made_again(lost: Pod | None) -> None:
    job = running()
    result = planned(job, *with_lost(lost, OTHER), now=after(2))
    again = planned(with_status(job, result.status), *with_lost(lost, OTHER), now=after(3))
    assert numbers(again) == (1, 1)
    assert not again.events
    gone = planned(with_status(job, result.status), OTHER, now=after(4))
    assert gone.created_pods == ["Worker-1"]
    annotations = gone.creations("pods")[0].body["metadata"]["annotations"]
    assert annotations == {"training.kubeflow.org/restarts": "1", "training.kubeflow.org/disruptions": "1"}


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("deleted, and gone", "deleted by a user or a program"),
        ("deleted", "deleted by a user or a program"),
        ("drained", "evicted from node n1 through the API, as a drain does: EvictionByEvictionAPI"),
        ("preempted", "preempted by the scheduler: PreemptionByScheduler"),
        ("node gone", "node n1 is gone: DeletionByPodGC"),
        ("node shut down", "node n1 was shut down: Terminated"),
        ("no memory on the node", "evicted by the kubelet of node n1: Evicted"),
        ("node not ready", "node n1 is lost"),
        ("refused", "refused by the kubelet of node n1: OutOfcpu"),
        ("node crashed", "node n1 has crashed: Unknown"),
    ],
)
def test_condition_and_event_name_what_took_it(what: str, named: str) -> None:
    result = planned(running(), *with_lost(TAKEN[what], OTHER), now=after(2))
    message = f"job mnist is restarting because a disruption (not a failure) ended replica(s): Worker-1 ({named})."
    assert result.condition(C.RESTARTING).message == message
    assert [event.message for event in result.events if event.reason == "TFJobRestarting"] == [message]


def test_a_lost_node_is_told_from_a_tainted_one() -> None:
    not_ready = PodCondition("Ready", "False", "NodeNotReady")
    tainted = PodCondition("DisruptionTarget", "True", "DeletionByTaintManager")
    lost = make_pod("Worker-1", conditions=(tainted, not_ready), node="n1", deleted=NOW)
    assert (
        "(node n1 is lost: DeletionByTaintManager)" in planned(running(), OTHER, lost).condition(C.RESTARTING).message
    )
    alive = make_pod("Worker-1", conditions=(tainted,), node="n1", deleted=NOW, containers=(RUNS,))
    message = planned(running(), OTHER, alive).condition(C.RESTARTING).message
    assert "(evicted because of a taint of node n1: DeletionByTaintManager)" in message


@pytest.mark.parametrize(
    "message",
    [
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 9Mi. "
        "Container tensorflow was using 5Gi, request is 1Gi, has larger consumption of memory. ",
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
        'Container tensorflow exceeded its local ephemeral storage limit "1Gi". ',
    ],
)
@EVERY_POLICY
def test_an_eviction_for_using_more_than_was_asked_for_is_the_pods_own_doing(policy: str, message: str) -> None:
    lost = disrupted("TerminationByKubelet", phase="Failed", reason="Evicted", message=message)
    result = planned(running(policy, run_policy={"backoffLimit": 1}), OTHER, lost, now=after(60))
    assert numbers(result) == (1, 0)
    assert result.created_pods == ["Worker-1"], "on another node there may be room, under Never, too"
    text = result.condition(C.RESTARTING).message
    assert (
        "because Worker replica(s) failed (Worker-1: Evicted: the pod used more of a resource than it had requested)."
        in text
    )
    assert planned(running(policy), OTHER, lost, now=after(60)).is_true(C.FAILED), "the limit sees it"


def test_failures_and_disruptions_are_counted_beside_each_other() -> None:
    job = running(run_policy={"backoffLimit": 1})
    counts = {"restart_counts": {"0": 3, "1": 4}, "disruption_counts": {"0": 3, "1": 4}, "started_indexes": "0-1"}
    worker = msgspec.structs.replace(job.status.replica_statuses["Worker"], **counts)
    job = with_status(job, msgspec.structs.replace(job.status, replica_statuses={"Worker": worker}))
    pods = make_pod("Worker-0", restarts_before=3), make_pod("Worker-1", "Failed", exit_code=1, restarts_before=4)
    result = planned(job, *pods, now=after(1))
    assert numbers(result) == (8, 7)
    assert not result.is_true(C.FAILED)
    assert result.deleted_pods == ["Worker-1"], "its first failure waits for the first delay only"
    again = planned(job, *pods[1:], make_pod("Worker-0", "Failed", exit_code=1, restarts_before=3), now=after(2))
    assert again.is_true(C.FAILED)
    assert numbers(again) == (7, 7), "the failures that end the job are not counted"


def test_a_status_of_the_version_before_counts_its_restarts_as_failures() -> None:
    """It does not show which were disruptions, and the job behaves as before; later disruptions are counted apart."""
    job = running(run_policy={"backoffLimit": 1})
    worker = ReplicaStatus(active=2, ready=2, restarts=1, restart_counts={"1": 1}, started_indexes="0-1")
    job = with_status(job, msgspec.structs.replace(job.status, restarts=1, replica_statuses={"Worker": worker}))
    result = planned(job, OTHER, make_pod("Worker-1", deleted=NOW, restarts_before=1))
    assert (numbers(result), result.is_true(C.FAILED)) == ((2, 1), False)
    failed = planned(job, OTHER, make_pod("Worker-1", "Failed", exit_code=1, restarts_before=1))
    assert failed.condition(C.FAILED).message == (
        "Job mnist has failed because it has reached the specified backoff limit: Worker-1: exited with code 1"
    )


def test_what_a_pod_knows_of_its_disruptions_outlives_a_lost_status() -> None:
    job = started(make_job({"Worker": 1}, runPolicy={"backoffLimit": 0}))
    result = planned(job, make_pod("Worker-0", restarts_before=2, disruptions_before=2))
    assert (numbers(result), result.is_true(C.FAILED)) == ((2, 2), False)


@pytest.mark.parametrize("counts", [{"0": 9}, {"1": 9}, {"x": 1, "1": -1}])
def test_more_disruptions_than_restarts_are_not_believed(counts: dict[str, int]) -> None:
    job = running(run_policy={"backoffLimit": 0})
    worker = msgspec.structs.replace(
        job.status.replica_statuses["Worker"], restart_counts={"1": 1}, disruption_counts=counts
    )
    job = with_status(job, msgspec.structs.replace(job.status, replica_statuses={"Worker": worker}))
    failed = planned(job, OTHER, make_pod("Worker-1", "Failed", exit_code=1, restarts_before=1), now=after(99))
    assert failed.is_true(C.FAILED)


# A node that crashes, and comes back: its kubelet starts the containers again.

RUNS = ContainerStatus(name="tensorflow", ready=True, state=ContainerState())
CRASH = ContainerState(terminated=ContainerStateTerminated(255, "Unknown", "", NOW, NOW))
CODE_1 = ContainerState(terminated=ContainerStateTerminated(1, "Error", "", NOW, NOW))


@pytest.mark.parametrize("mode", ["InPlace", None])
@pytest.mark.parametrize(("last", "expected", "fails"), [(CRASH, (1, 1), False), (CODE_1, (1, 0), True)])
def test_a_restart_in_place_after_a_crash_of_the_node_is_a_disruption(
    mode: str | None, last: ContainerState, expected: tuple[int, int], fails: bool
) -> None:
    restarted = msgspec.structs.replace(RUNS, restart_count=1, last_state=last)
    more = {} if mode is None else {"restartMode": mode}
    pod = make_pod("Worker-1", containers=(restarted,), node="n1")
    job = running(run_policy=more)
    result = planned(job, OTHER, pod)
    assert numbers(result) == expected
    assert numbers(planned(with_status(job, result.status), OTHER, pod)) == expected
    assert planned(running(run_policy={**more, "backoffLimit": 0}), OTHER, pod).is_true(C.FAILED) is fails
    if mode:
        why = (
            "a disruption (not a failure) ended replica(s): Worker-1 (node n1 has crashed"
            if last is CRASH
            else "Worker replica(s) fai"
        )
        assert why in next(event.message for event in result.events if event.reason == "TFJobRestarting")


# All replicas together.


def joint(**policy: Any) -> TFJob:
    return running(run_policy={"restartScope": "Job", "backoffLimit": 0, **policy})


@EVERYTHING_TAKEN
def test_one_joint_restart_is_one_disruption_and_one_event(lost: Pod | None) -> None:
    job = joint()
    result = planned(job, *with_lost(lost, OTHER), now=after(2))
    assert not result.is_true(C.FAILED)
    assert (numbers(result), result.status.job_restarts, result.status.job_disruptions) == ((1, 1), 1, 1)
    assert result.status.replica_statuses["Worker"].restart_counts == {}
    assert result.write_status_first
    assert [event.reason for event in result.events].count("TFJobRestarting") == 1
    assert result.condition(C.RESTARTING).message.endswith("This counts as a disruption, not as a failure.")
    gone = planned(with_status(job, result.status), now=after(3))
    assert numbers(gone) == (1, 1)
    noted = {"training.kubeflow.org/job-restarts": "1", "training.kubeflow.org/job-disruptions": "1"}
    assert [creation.body["metadata"]["annotations"] for creation in gone.creations("pods")] == [noted] * 2


@pytest.mark.parametrize(
    ("failed_at", "grace", "expected"), [(-30, 30, (1, 0)), (1, 30, (1, 1)), (-30, 0, (1, 1)), (-30, 1, (1, 1))]
)
def test_what_fails_after_another_was_taken_fails_because_of_that(
    failed_at: float, grace: int, expected: tuple[int, int]
) -> None:
    """With a grace period of at most a second, the deletion may be older than it looks."""
    job = joint(backoffLimit=3)
    failed = make_pod("Worker-0", "Failed", exit_code=1, finished=after(failed_at))
    taken = make_pod("Worker-1", deleted=NOW, grace=grace)
    assert numbers(planned(job, failed, taken, now=after(2))) == expected


def test_a_joint_restart_after_a_failure_is_a_failure() -> None:
    failed = make_pod("Worker-1", "Failed", exit_code=1)
    assert numbers(planned(joint(backoffLimit=1), OTHER, failed)) == (1, 0)
    assert planned(joint(), OTHER, failed).is_true(C.FAILED)


# Replicas that are disrupted again and again.


class Life:
    """A job whose worker 1 is taken again and again; `now` is in seconds."""

    def __init__(self, job: TFJob | None = None, *, options: PlanOptions | None = None) -> None:
        self.job = running() if job is None else job
        self.now = 0.0
        self.options = plan_options() if options is None else options

    def take(self) -> ReadablePlan:
        """Its pod has gone: plan until it is made again, in steps as the plans ask for them; then it runs."""
        began, result = self.now, self._planned(OTHER)
        while "Worker-1" not in result.created_pods:
            assert result.requeue_after is not None
            assert not result.is_true(C.FAILED)
            self.now += result.requeue_after
            result = self._planned(OTHER)
        self.waited = self.now - began
        annotations = result.creations("pods")[-1].body["metadata"]["annotations"]
        self.pod = make_pod(
            "Worker-1",
            restarts_before=int(annotations["training.kubeflow.org/restarts"]),
            disruptions_before=int(annotations["training.kubeflow.org/disruptions"]),
            created=self.time,
            start=self.time,
        )
        return self._planned(OTHER, self.pod)

    @property
    def time(self) -> datetime:
        return after(self.now)

    def _planned(self, *pods: Pod) -> ReadablePlan:
        result = planned(self.job, *pods, now=self.time, options=self.options)
        self.job = with_status(self.job, result.status)
        return result


def test_what_is_taken_again_within_seconds_waits_longer_each_time_until_it_stays() -> None:
    life = Life()
    waits = []
    for _ in range(12):
        life.take()
        waits.append(life.waited)
        life.now += 2
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert (life.job.status.restarts, life.job.status.disruptions) == (12, 12)
    life.now += 301
    life.take()
    assert life.waited == 0, "a quiet time has ended the row"
    life.now += 2
    life.take()
    assert life.waited == 1
    without = Life(options=plan_options(restart_delay_base=0.0))
    for _ in range(5):
        without.take()
        assert without.waited == 0


def test_a_pod_that_is_refused_again_and_again_waits_with_its_log() -> None:
    job, now, waits = running(), 0.0, []
    for number in range(5):
        refused = make_pod(
            "Worker-1", "Failed", reason="OutOfcpu", restarts_before=number, created=after(now), start=after(now)
        )
        began = now
        while True:
            result = planned(job, OTHER, refused, now=after(now))
            job = with_status(job, result.status)
            if result.created_pods:
                break
            assert result.requeue_after is not None
            now += result.requeue_after
        assert result.deleted_pods == ["Worker-1"]
        waits.append(now - began)
    assert waits == [0, 1, 2, 4, 8]
    waiting = planned(job, OTHER, make_pod("Worker-1", "Failed", reason="OutOfcpu", restarts_before=5), now=after(now))
    assert (
        "Worker-1 waits: its pods were deleted or evicted repeatedly; the operator will create the next pod at 12:00:"
        in (waiting.condition(C.RUNNING).message)
    )


def test_replicas_of_one_drain_are_one_disruption_in_the_row() -> None:
    job = running(replicas=4)
    pods = [make_pod(f"Worker-{index}") for index in range(4)]
    for index in range(4):
        pods[index] = make_pod(f"Worker-{index}", deleted=after(index))
        result = planned(job, *pods, now=after(index))
        job = with_status(job, result.status)
    backoff = result.status.disruption_backoff
    assert backoff is not None
    assert (backoff.count, backoff.replicas) == (1, {"Worker": "0-3"})
    assert numbers(result) == (4, 4)
    assert planned(job, now=after(9)).created_pods == [f"Worker-{index}" for index in range(4)]


def test_all_replicas_wait_where_they_restart_together() -> None:
    job, now, waits = joint(), 0.0, []
    for number in range(4):
        pods = [make_pod(f"Worker-{i}", job_restarts=number, created=after(now), start=after(now)) for i in range(2)]
        now += 1
        leaving = [msgspec.structs.replace(pod, metadata=deleted_at(pod, now)) for pod in pods]
        job = with_status(job, planned(job, *pods, now=after(now)).status)
        job = with_status(job, planned(job, leaving[0], pods[1], now=after(now)).status)
        began = now
        while not (result := planned(job, now=after(now))).created_pods:
            assert result.requeue_after is not None
            now += result.requeue_after
        assert result.created_pods == ["Worker-0", "Worker-1"]
        job = with_status(job, result.status)
        waits.append(now - began)
    assert waits == [0, 1, 2, 4]
    assert numbers(result) == (4, 4)


def deleted_at(pod: Pod, seconds: float) -> ObjectMeta:
    return msgspec.structs.replace(pod.metadata, deletion_timestamp=after(seconds), deletion_grace_period_seconds=0)


@pytest.mark.parametrize("stop", [{"suspend": True}, {"activeDeadlineSeconds": 0}])
def test_a_suspension_and_the_end_forget_the_row(stop: dict[str, Any]) -> None:
    life = Life()
    for _ in range(4):
        life.take()
    spec = running(run_policy=stop).spec
    result = planned(msgspec.structs.replace(life.job, spec=spec), OTHER, life.pod, now=life.time)
    assert result.status.disruption_backoff is None
    assert numbers(result) == (4, 4)


@pytest.mark.parametrize(("back", "waits"), [(2, 10), (8, 16), (9, None), (86400, None)])
def test_a_clock_that_is_set_back_holds_nothing_for_longer_than_twice_its_delay(
    back: float, waits: float | None
) -> None:
    life = Life()
    for _ in range(4):
        life.take()
    job = with_status(life.job, planned(life.job, OTHER, now=life.time).status)
    held = planned(job, OTHER, now=after(life.now - back))
    assert (held.requeue_after if "Worker-1" not in held.created_pods else None) == waits


def test_a_row_at_the_end_of_the_calendar_breaks_nothing() -> None:
    life = Life()
    for _ in range(4):
        life.take()
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    status = planned(life.job, OTHER, now=life.time).status
    assert status.disruption_backoff is not None
    row = msgspec.structs.replace(status.disruption_backoff, since=end)
    job = with_status(life.job, msgspec.structs.replace(status, disruption_backoff=row))
    assert "Worker-1" in planned(job, OTHER, now=life.time).created_pods
    assert planned(job, OTHER, now=end).requeue_after == 8, "also where that is the present"


# Other limits.


def test_what_was_taken_does_not_count_for_the_workers_that_may_fail() -> None:
    job = started(make_job({"Worker": {"replicas": 2, "restartPolicy": "Never"}}, maxFailedWorkers=0))
    job = with_status(job, planned(job, OTHER, make_pod("Worker-1")).status)
    for lost in TAKEN.values():
        result = planned(job, *with_lost(lost, OTHER), now=after(2))
        assert not result.is_true(C.FAILED)
        assert result.status.replica_statuses["Worker"].failed_indexes == ""


def test_the_clock_of_progress_stands_still_until_what_was_taken_runs_again() -> None:
    job = running(run_policy={"progressDeadlineSeconds": 60, "onStall": "Fail"})
    for lost in TAKEN.values():
        result = planned(job, *with_lost(lost, OTHER), now=after(600))
        assert not result.is_true(C.FAILED)
        assert not result.is_true(C.STALLED)


@EVERYTHING_TAKEN
def test_what_was_taken_is_no_failure_on_its_node(lost: Pod | None) -> None:
    result = planned(running(run_policy={"onStraggler": "Restart"}), *with_lost(lost, OTHER), now=after(2))
    assert result.status.node_failures == {}


def test_a_job_that_restarts_before_it_ever_ran_says_why_it_does_not_run() -> None:
    job = started(make_job({"Worker": {"replicas": 2, "restartPolicy": "OnFailure"}}))
    failed = make_pod("Worker-1", "Failed", exit_code=1)
    result = planned(job, make_pod("Worker-0", "Pending"), failed)
    condition = result.condition(C.RUNNING)
    assert (condition.status, condition.reason) == ("False", "TFJobRestarting")
    assert condition.message == (
        "TFJob ns/mnist restarts. 0/2 replicas ready; Worker-1 waits: restart (exited with code 1)."
    )
    assert result.status.conditions[-1].type == C.RESTARTING


def test_what_is_deleted_before_the_status_tells_of_it_counts_for_nothing_but_waits_longer_each_time() -> None:
    """Somebody deletes each pod as soon as it is there: it never gets into the status, and must not be a hot loop."""
    job, now, waits = started(make_job({"Worker": 1})), 0.0, []
    for _ in range(6):
        pod = make_pod("Worker-0", "Pending", created=after(now), start=after(now))
        now += 1.5
        leaving = msgspec.structs.replace(pod, metadata=deleted_at(pod, now))
        for _ in range(2):
            job = with_status(job, planned(job, leaving, now=after(now)).status)
        began = now
        while not (result := planned(job, now=after(now))).created_pods:
            assert result.requeue_after is not None
            now += result.requeue_after
        waits.append(now - began)
        assert numbers(result) == (0, 0)
    assert waits == [0, 1, 2, 4, 8, 16]


def test_a_pod_that_is_deleted_early_joins_a_row_once() -> None:
    job = running(replicas=2)
    job = with_status(job, planned(job, OTHER, now=after(1)).status)
    first = make_pod("Worker-1", restarts_before=1, disruptions_before=1, created=after(2), start=after(2))
    job = with_status(job, planned(job, OTHER, first, now=after(3)).status)
    worker = msgspec.structs.replace(job.status.replica_statuses["Worker"], started_indexes="1")
    job = with_status(job, msgspec.structs.replace(job.status, replica_statuses={"Worker": worker}))
    early = make_pod("Worker-0", deleted=after(5))
    joined = planned(job, early, first, now=after(6))
    assert joined.status.disruption_backoff is not None
    assert joined.status.disruption_backoff.replicas == {"Worker": "0-1"}
    again = planned(with_status(job, joined.status), early, first, now=after(7))
    assert again.status.disruption_backoff == joined.status.disruption_backoff
    assert not again.write_status


def test_a_pod_that_is_deleted_early_joins_a_row_once_also_when_its_deletion_looks_later() -> None:
    """Its kubelet confirms the deletion, and a finalizer keeps it: the API server moves the time of the deletion."""
    job = running(replicas=2)
    job = with_status(job, planned(job, OTHER, now=after(1)).status)
    first = make_pod("Worker-1", restarts_before=1, disruptions_before=1, created=after(2), start=after(2))
    job = with_status(job, planned(job, OTHER, first, now=after(3)).status)
    worker = msgspec.structs.replace(job.status.replica_statuses["Worker"], started_indexes="1")
    job = with_status(job, msgspec.structs.replace(job.status, replica_statuses={"Worker": worker}))
    early = make_pod("Worker-0", created=after(2), start=after(2), deleted=after(5), node="n")
    job = with_status(job, planned(job, early, first, now=after(6)).status)
    kept = make_pod("Worker-0", created=after(2), start=after(2), deleted=after(20), grace=0, node="n")
    again = planned(job, kept, first, now=after(20))
    assert again.status.disruption_backoff == job.status.disruption_backoff
    assert not again.write_status


def test_a_pod_that_seems_to_be_younger_than_its_deletion_joins_a_row_once() -> None:
    job = make_job({"Worker": {"replicas": 1}})
    early = make_pod("Worker-0", created=after(7), start=after(7), deleted=after(6), grace=0, node="n")
    result = planned(job, early, now=after(2))
    assert result.status.disruption_backoff is not None
    assert planned(with_status(job, result.status), early, now=after(3)).status.disruption_backoff == (
        result.status.disruption_backoff
    )


def test_times_without_a_zone_are_compared_with_others() -> None:
    """API servers do not write such times, but a plan is made whatever a pod shows."""
    early = make_pod("Worker-0", deleted=after(5).replace(tzinfo=None))
    leaving = make_pod("Worker-1", deleted=after(9))
    row = planned(make_job({"Worker": {"replicas": 2}}), early, leaving, now=after(2)).status.disruption_backoff
    assert row is not None
    assert row.since == after(9)
    assert numbers(planned(joint(), early, leaving, now=after(9))) == (1, 1)
    failed = make_pod("Worker-0", "Failed", exit_code=1, finished=after(1).replace(tzinfo=None))
    assert numbers(planned(joint(backoffLimit=9), failed, make_pod("Worker-1", "Failed", exit_code=1))) == (1, 0)
