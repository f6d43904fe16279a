"""Jobs that MultiKueue has run on another cluster, as programs see them here."""

from typing import Any

import pytest

from tests.support.fake_api import FakeApi, api_error
from tests.support.kueue_objects import condition, workload
from tests.unit.api.samples import job_of, tfjob
from tfoperator.api.fields.limits import MANAGED_BY_MULTIKUEUE
from tfoperator.api.kueue.queues import not_carried
from tfoperator.api.kueue.workloads import CLUSTER_VERSIONS, WORKLOADS
from tfoperator.api.v1.types import TFJob
from tfoperator.sdk import QueueState, job_queues
from tfoperator.sdk.queues import cluster_of
from tfoperator.sdk.states import ready_text, restart_count

QUOTA, ADMITTED = condition("QuotaReserved"), condition("Admitted")


def manifest(run_policy: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    policy = {"managedBy": MANAGED_BY_MULTIKUEUE, **(run_policy or {})}
    made = tfjob({"Worker": {"replicas": 2}}, runPolicy=policy)
    made["spec"] |= spec
    made["metadata"] |= {"uid": "u", "namespace": "ns"}
    return made


def job(**parts: Any) -> TFJob:
    return job_of(manifest(**parts))


def kueue(*conditions: dict[str, Any], reached: dict[str, Any] | None = None, **status: Any) -> FakeApi:
    """A cluster whose Kueue has the job's Workload, and has written this about worker-1."""
    api = FakeApi()
    api.put(WORKLOADS, workload(manifest(), *conditions, **status) | {"metadata": {**_META}})
    if reached is not None:
        api.put(CLUSTER_VERSIONS[0], {"metadata": {"name": "worker-1"}, "status": {"conditions": [reached]}})
    return api


_META = {"name": "tfjob-mnist", "namespace": "ns", "labels": {"kueue.x-k8s.io/job-uid": "u"}}
RUNS = (QUOTA, ADMITTED)
CONNECTED = condition("Active", message="Connected")
AWAY = condition("Active", "False", "ClientConnectionFailed", "dial tcp 10.1.1.1:6443:\nconnection refused")


def test_who_was_asked_is_named_and_the_cluster_known_to_who_may_not_read_it_and_of_a_job_that_has_ended() -> None:
    check = {"name": "far", "state": "Pending", "message": ""}
    api = kueue(QUOTA, admissionChecks=[check], nominatedClusterNames=["worker-1", "worker-2"])
    queue = job_queues(api, [job()])["u"]
    assert queue.state is QueueState.CHECKING
    assert queue.message == "admission check far is Pending; offered to cluster worker-1, worker-2"
    api = kueue(*RUNS, clusterName="worker-1")
    api.fail("get", CLUSTER_VERSIONS[0].plural, api_error(403))
    queue = job_queues(api, [job()])["u"]
    assert (queue.cluster, queue.problem) == ("worker-1", "")
    made = manifest() | {"status": {"conditions": [condition("Succeeded")]}}
    assert cluster_of(api, job_of(made)) == "worker-1"
    assert cluster_of(FakeApi(), job()) == ""


@pytest.mark.parametrize(
    ("reached", "suffix"),
    [
        (CONNECTED, ""),
        (AWAY, ", which Kueue can't reach now (dial tcp 10.1.1.1:6443: connection refused)"),
        (None, ", which MultiKueue no longer has in its configuration"),
    ],
)
def test_a_cluster_that_is_away_is_told(reached: dict[str, Any] | None, suffix: str) -> None:
    api = kueue(*RUNS, reached=reached, clusterName="worker-1")
    made = manifest()
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "far"}
    queue = job_queues(api, [job_of(made)])["u"]
    assert str(queue) == f"far: Admitted, runs on cluster worker-1{suffix}"
    assert not queue.waits


def test_what_multikueue_does_not_tell_is_not_counted_as_none() -> None:
    status = {"replicaStatuses": {"Worker": {"active": 2}}, "conditions": [condition("Created")]}
    remote = job_of(manifest() | {"status": status})
    assert (ready_text(remote), restart_count(remote)) == ("-", None)
    for message, expected in (
        ("TFJob ns/mnist is running.", "2/2"),
        ("TFJob ns/mnist is running. 1/2 replicas ready; worker-1 waits.", "1/2"),
    ):
        running = condition("Running") | {"message": message}
        assert ready_text(job_of(manifest() | {"status": {"conditions": [running]}})) == expected
    reported = job_of(manifest() | {"status": {"ready": "1/2", "restarts": 3}})
    assert (ready_text(reported), restart_count(reported)) == ("1/2", 3)


def test_what_the_copy_of_a_job_lacks_is_known() -> None:
    checkpoint = {"volume": {"emptyDir": {}}, "mountPath": "/ckpt"}
    made = job(run_policy={"restartScope": "Job", "backoffLimit": 3}, checkpoint=checkpoint, progress={})
    assert not_carried(made) == ("spec.checkpoint", "spec.progress", "spec.runPolicy.restartScope")
    harmless = {"restartScope": "Replica", "onStall": "Report", "ttlSecondsAfterFinished": 5}
    assert not_carried(job(run_policy=harmless, clusterArguments=False, enableDynamicWorker=True)) == ()
