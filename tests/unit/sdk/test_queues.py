"""Where a job stands in its queue of Kueue."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.cluster import decode
from tests.support.fake_api import FakeApi, api_error
from tests.support.kueue_objects import QueueWorld, condition, no_quota, queue_world, workload
from tests.support.served import ServedWorld, served, world
from tests.unit.api.samples import job_of, tfjob
from tfoperator.api.fields.limits import MANAGED_BY_MULTIKUEUE
from tfoperator.api.kueue.queues import POD_SETS_ANNOTATION, QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS, Workload, decode_workload
from tfoperator.api.v1.types import TFJob
from tfoperator.sdk import JobQueue, JobQueued, QueueState, WaitTimeout, job_queues
from tfoperator.sdk.queues import queue_of

__all__ = ["served", "world"]

S = QueueState
QUOTA = condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue team")
ADMITTED = condition("Admitted", "True", "Admitted", "The workload is admitted")
PREEMPTED = condition("Evicted", "True", "Preempted", "for a higher priority")
CHECK = {"name": "capacity", "state": "Pending", "message": "asked for nodes"}
ADMISSION = {"admission": {"clusterQueue": "team"}}


def manifest(uid: str = "u", queue: str = "research", **run_policy: Any) -> dict[str, Any]:
    made = tfjob({"Worker": {}}, runPolicy=run_policy)
    made["metadata"] |= {"uid": uid, "namespace": "ns", "labels": {QUEUE_LABEL: queue} if queue else {}}
    return made


def job(uid: str = "u", queue: str = "research", **run_policy: Any) -> TFJob:
    return job_of(manifest(uid, queue, **run_policy))


def seen(*conditions: dict[str, Any], **more: Any) -> Workload:
    return decode_workload(json.dumps(workload(manifest(), *conditions, **more)).encode())


def stopped(message: str) -> dict[str, Any]:
    return condition("Evicted", "True", "ClusterQueueStopped", message)


NOSUCH = condition("QuotaReserved", "False", "Inadmissible", "LocalQueue nosuch doesn't exist")


@pytest.mark.parametrize(
    ("kueue_workload", "state", "message"),
    [
        (seen(), S.WAITING, "Kueue has not processed its Workload yet"),
        (seen(no_quota()), S.WAITING, "insufficient unused quota for cpu in flavor default, 2 more needed"),
        (seen(NOSUCH), S.WAITING, "LocalQueue nosuch doesn't exist"),
        (
            seen(no_quota("no room"), PREEMPTED, requeueState={"requeueAt": "2026-01-01T10:00:00Z"}),
            S.WAITING,
            "no room; evicted before (Preempted: for a higher priority); tried again at 2026-01-01T10:00:00+00:00",
        ),
        (seen(no_quota("it is stopped"), stopped("it is stopped")), S.WAITING, "ClusterQueueStopped: it is stopped"),
        (seen(QUOTA, ADMITTED, **ADMISSION), S.ADMITTED, "The workload is admitted"),
        (seen(QUOTA, admissionChecks=[CHECK]), S.CHECKING, "admission check capacity is Pending: asked for nodes"),
        (seen(QUOTA, ADMITTED, PREEMPTED), S.EVICTED, "Preempted: for a higher priority"),
        (seen(no_quota(), spec={"active": False}), S.INACTIVE, "Workload tfjob-mnist is not active"),
        (seen(condition("Finished", message="done"), QUOTA, ADMITTED), S.FINISHED, "done"),
    ],
)
def test_what_kueue_has_written_is_told(kueue_workload: Workload, state: QueueState, message: str) -> None:
    queue = queue_of(job(), [kueue_workload])
    assert (queue.state, queue.message, queue.name, queue.workload) == (state, message, "research", "tfjob-mnist")
    assert queue.waits == (state not in (S.ADMITTED, S.FINISHED))


def test_it_reads_as_one_line() -> None:
    assert str(queue_of(job(), [seen(no_quota("no room"))])) == "research: Waiting: no room"
    assert str(queue_of(job(), [seen(QUOTA, ADMITTED, **ADMISSION)])) == "research: Admitted by ClusterQueue team"
    remote = job(queue="", managedBy=MANAGED_BY_MULTIKUEUE)
    queue = queue_of(remote, [seen(QUOTA, ADMITTED, clusterName="worker-1", spec={"queueName": "far"})])
    assert str(queue) == "far: Admitted, runs on cluster worker-1"
    assert queue.multikueue


def test_of_several_workloads_the_one_counts_that_is_not_finished_and_a_job_without_any_says_so() -> None:
    done, waits = seen(condition("Finished"), name="a"), seen(no_quota(), name="b")
    assert queue_of(job(), [done, waits]).workload == queue_of(job(), [waits, done]).workload == "b"
    queue = queue_of(job(), [])
    assert (queue.state, "kubeflow.org/tfjob" in queue.message) == (S.UNKNOWN, True)


def ended(uid: str) -> TFJob:
    return job_of(manifest(uid) | {"status": {"conditions": [condition("Succeeded")]}})


def test_one_request_asks_about_fifty_and_none_about_jobs_without_a_queue_or_that_have_ended() -> None:
    api = FakeApi()
    queues_by_uid = job_queues(api, [job(queue=""), ended("gone")])
    assert {uid: queue.state for uid, queue in queues_by_uid.items()} == {"gone": S.FINISHED}
    assert api.calls == []
    assert len(job_queues(api, [job(f"u{number}") for number in range(120)])) == 120
    assert [call.verb for call in api.calls] == ["list"] * 3


@pytest.mark.parametrize(("code", "word"), [(403, "you have no permission to read it"), (500, "can't be read")])
def test_what_can_not_be_read_is_said(code: int, word: str) -> None:
    api = FakeApi()
    api.fail("list", WORKLOADS.plural, api_error(code))
    queue = job_queues(api, [job()])["u"]
    assert queue.state is S.UNKNOWN
    assert word in queue.message
    assert queue.waits


@pytest.fixture(params=["v1beta1", "v1beta2"])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueWorld]:
    with queue_world(tmp_path, request.param) as served_world:
        yield served_world


def test_on_a_server_with_either_version_of_kueue(queues: QueueWorld) -> None:
    waits, runs = queues.queue("waits"), queues.queue("runs")
    queues.submit("free", Worker=1)
    queues.admits(waits, no_quota())
    queues.admits(runs, QUOTA, ADMITTED, **ADMISSION)
    waiting, running = queues.sdk.get_job_queue("waits"), queues.sdk.get_job_queue("runs")
    assert waiting == JobQueue("research", S.WAITING, no_quota()["message"], "tfjob-waits")
    assert (running.state, running.cluster_queue) == (S.ADMITTED, "team")
    assert msgspec.to_builtins(running)["clusterQueue"] == "team", "it is plain data for programs"
    assert queues.sdk.get_job_queue("free") is None
    for change in (queues.sdk.suspend_job, queues.sdk.resume_job):
        before = queues.job("runs")["metadata"]["resourceVersion"]
        with pytest.raises(JobQueued, match="is in queue research: Kueue decides") as caught:
            change("runs")
        assert (caught.value.queue.workload, caught.value.name) == ("tfjob-runs", "runs")
        assert queues.job("runs")["metadata"]["resourceVersion"] == before
    # A person decides about jobs that the operator drives, and about suspended jobs, which have no Workload.
    workload = (queues.resource, queues.namespace, "tfjob-runs")
    queues.client.patch(*workload, {"metadata": {"annotations": {POD_SETS_ANNOTATION: "0123"}}}, decode)
    queues.queue("unseen")
    for name in ("runs", "unseen"):
        assert queues.sdk.suspend_job(name).spec.suspended
        assert not queues.sdk.resume_job(name).spec.suspended
    with pytest.raises(WaitTimeout, match="queue research: Waiting: insufficient unused quota"):
        queues.sdk.wait_for_job_conditions("waits", wait_timeout=0)


def test_without_kueue_a_queues_label_is_but_a_label(world: ServedWorld) -> None:
    world.submit("mnist", {QUEUE_LABEL: "research"})
    queue = world.sdk.get_job_queue("mnist")
    assert (queue.state, queue.waits) == (S.NO_KUEUE, False)
    assert world.sdk.suspend_job("mnist").spec.suspended
