"""Jobs whose end, or whose operator's, takes a process and a real API server to see.

tests/unit/controller tests the decisions about jobs; test_faults shows that they come off on a real API server,
whatever happens to the operator. The numbers are threads of kubeflow/trainer, whose users complain of these things;
names that are too long (#1101) and misplaced fields (#1241) are in tests/contract, memory (#1661) is in
test_operator_cost.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hack.controlplane import ControlPlane
from tests.e2e.conftest import COUNTED_USER
from tests.support.audit import AuditTrail
from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.operated import HOLD, JobOnCluster, Operated, parse_time
from tests.support.operator_process import OperatorProcess
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource

pytestmark = pytest.mark.controlplane

HOUR = 3600
"""Seconds. Much longer than a test waits: an operator that counts them from its own start is never in time."""


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    """No comparison with the live state in time: what is in time here is so by the job's own timer."""
    return ("--restart-delay-base=100ms", "--resync-period=5m")


def test_2045_the_back_off_limit_counts_over_recreations_and_restarts_of_the_operator(operated: Operated) -> None:
    job = operated.running("limited", restart_policy="ExitCode", run_policy={"backoffLimit": 2}, Worker=2)
    job.fail("worker-0", exit_code=137)
    operated.restart_operator()
    job.fail("worker-1", exit_code=137)
    eventually(lambda: job.restarts() == 2, every=0.05, what="two restarts are counted")
    operated.restart_operator(meanwhile=lambda: job.play("Failed", "worker-0", exit_code=137))
    failed = job.wait("Failed")
    assert "reached the specified backoff limit" in failed["message"]
    assert job.restarts() == 2, "what ends the job is not tried again"
    job.wait_pods("worker-0")  # its log has the reason; the other is stopped


def set_back(job: JobOnCluster, field: str) -> None:
    """Let the time in the job's status be an hour ago, while there is no operator."""
    moment = (datetime.now(UTC) - timedelta(seconds=HOUR)).strftime("%Y-%m-%dT%H:%M:%SZ")
    change = {"status": {field: moment}}
    job.cluster.client.patch(TFJOBS, job.cluster.namespace, job.name, change, decode, subresource="status")


def test_3358_1533_1186_deadlines_times_to_live_and_ends_hold_across_a_restart_of_the_operator(
    operated: Operated,
) -> None:
    late = operated.running("late", run_policy={"activeDeadlineSeconds": HOUR + 5}, Worker=1)
    manifest = tfjob("over", run_policy={"ttlSecondsAfterFinished": HOUR + 5}, Worker=1)
    manifest["metadata"]["finalizers"] = [HOLD]
    over = operated.submit(manifest)
    over.wait_pods("worker-0")
    over.play("Succeeded", "worker-0", leads_to="Succeeded")
    half = operated.running("half-done", restart_policy="OnFailure", spec={"successPolicy": "AllWorkers"}, Worker=2)
    half.play("Succeeded", "worker-1")
    eventually(lambda: half.completed("Worker") == "1", every=0.05, what="worker 1 has succeeded")

    def meanwhile() -> None:
        set_back(late, "startTime")
        set_back(over, "completionTime")
        half.delete_pod("worker-1")

    operated.restart_operator(meanwhile)
    late.wait("Failed")
    status = late.status()
    assert parse_time(status["completionTime"]) - parse_time(status["startTime"]) >= HOUR + 5
    completed = parse_time(over.status()["completionTime"])
    assert over.wait_deletion_time() - completed >= HOUR + 5
    operated.settle()
    assert set(half.pods()) == {"worker-0"}, "what has finished is not run again"
    half.play("Succeeded", "worker-0", leads_to="Succeeded")


def test_2361_pods_are_made_in_parallel_and_after_their_services(
    plane: ControlPlane, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    trail = AuditTrail(plane.audit_log, COUNTED_USER)
    start_operator(kubeconfig=plane.kubeconfig_for(COUNTED_USER))
    cluster.submit(tfjob("wide", Worker=30))
    cluster.wait_pods(30)

    def creations() -> dict[str, tuple[datetime, datetime]]:
        """Begin and end of the creation of each pod."""
        times = {}
        for entry in trail.entries():
            what = entry.get("objectRef", {})
            if (entry["verb"], what.get("resource"), what.get("namespace")) == ("create", "pods", cluster.namespace):
                begin, end = entry["requestReceivedTimestamp"], entry["stageTimestamp"]
                times[what["name"]] = datetime.fromisoformat(begin), datetime.fromisoformat(end)
        return times

    eventually(lambda: len(creations()) == 30, every=0.1, what="the audit log is written")
    pods = creations()
    at_once = max(sum(begin <= other < end for begin, end in pods.values()) for other, _ in pods.values())
    assert 2 <= at_once <= 16
    # Not by the log's times: an answer reaches the operator before the log records it.
    made = cluster.services(), cluster.pods()
    orders = [{name: int(obj["metadata"]["resourceVersion"]) for name, obj in some.items()} for some in made]
    assert all(orders[0][name] < order for name, order in orders[1].items())


# Jobs that an older operator of this project has started.


def as_left_by_an_older_one(operated: Operated, name: str, policy: str, **run_policy: Any) -> JobOnCluster:
    """A running job of two workers, the first of which was restarted twice; no operator runs.

    Its spec has the defaults of older CRDs, and its status the members of older operators.
    """
    run_policy = {"cleanPodPolicy": "None", "suspend": False, **run_policy}
    job = operated.running(name, restart_policy=policy, run_policy=run_policy, Worker=2)
    operated.operator.kill()
    worker: Json = {"active": 2, "ready": 2, "restarts": 2, "restartCounts": {"0": 2}, "startedIndexes": "0-1"}
    older = {"restarts": 2, "jobRestarts": None, "replicaStatuses": {"Worker": worker}}
    job.cluster.client.patch(TFJOBS, job.cluster.namespace, name, {"status": older}, decode, subresource="status")
    return job


def counts(job: JobOnCluster) -> Json:
    return dict(job.status()["replicaStatuses"]["Worker"].get("restartCounts") or {})


@pytest.mark.parametrize("policy", ["OnFailure", "ExitCode"])
def test_counts_go_on_and_the_limit_allows_one_more_than_before(operated: Operated, policy: str) -> None:
    job = as_left_by_an_older_one(operated, f"older-{policy.lower()}", policy, backoffLimit=3)
    job.play("Failed", "worker-1", exit_code=137)
    uid = job.pod_uid("worker-1")
    operated.operator.start().wait_ready()
    job.wait_successor("worker-1", of=uid)
    job.play("Running", "worker-1", leads_to="Running")
    eventually(lambda: counts(job) == {"0": 2, "1": 1}, every=0.05, what="the restart is counted")
    job.play("Failed", "worker-1", exit_code=137)
    assert "backoff limit" in job.wait("Failed")["message"]
    assert job.restarts() == 3


# A ResourceQuota, whose count of a pod that has ended comes a moment after the end. The test counts in the place of the
# controller of quotas, so that the moment is as long as it wants.


QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")


def count(operated: Operated, pods: int) -> None:
    """The controller of quotas has counted so many pods, of two that the namespace may have."""
    status: Json = {"status": {"hard": {"pods": "2"}, "used": {"pods": str(pods)}}}
    cluster = operated.cluster
    cluster.client.patch(QUOTAS, cluster.namespace, "pods", status, decode, subresource="status")


def test_a_quota_that_still_counts_a_pod_which_has_ended_is_told_only_if_that_lasts(operated: Operated) -> None:
    job = operated.running("full", restart_policy="OnFailure", Worker=2)
    quota: Json = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
    operated.cluster.client.create(QUOTAS, operated.cluster.namespace, quota, decode)
    count(operated, 2)
    for _ in range(3):
        failed = job.pod_uid("worker-0")
        job.play("Failed", "worker-0", exit_code=1)
        eventually(lambda: set(job.pods()) == {"worker-1"}, every=0.05, what="there is no room for the replacement")
        count(operated, 1)
        job.wait_successor("worker-0", of=failed)
        job.play("Running", "worker-0", leads_to="Running")
    assert "FailedCreatePod" not in job.reasons()
    job.play("Failed", "worker-0", exit_code=1)
    job.wait_reasons("FailedCreatePod")
    [event] = [event for event in job.events() if event["reason"] == "FailedCreatePod"]
    assert "exceeded quota: pods" in event["message"]
    assert set(job.pods()) == {"worker-1"}
    operated.cluster.client.delete(QUOTAS, operated.cluster.namespace, "pods")


def test_what_the_api_server_refuses_to_create_is_named_within_five_seconds(operated: Operated) -> None:
    """`quota.yaml` and `clash.yaml`: a quota without room, a service and a pod with the names of replicas."""
    cluster = operated.cluster
    taken: Json = {"metadata": {"name": "clash-worker-0"}, "spec": {"ports": [{"port": 80}]}}
    cluster.client.create(SERVICES, cluster.namespace, taken, decode)
    foreign: Json = {"metadata": {"name": "clash-worker-1"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    cluster.client.create(PODS, cluster.namespace, foreign, decode)
    clash = operated.submit(tfjob("clash", Worker=2))
    try:
        message = said_about(clash)
        assert "Worker-0 waits: NameTaken: Service " in message
        assert "Worker-1 waits: NameTaken: Pod " in message
    finally:
        clash.delete()
        cluster.client.delete(PODS, cluster.namespace, "clash-worker-1")
        cluster.client.delete(SERVICES, cluster.namespace, "clash-worker-0")
    quota: Json = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
    cluster.client.create(QUOTAS, cluster.namespace, quota, decode)
    count(operated, 0)
    try:
        big = operated.submit(tfjob("big", PS=1, Worker=4))
        message = said_about(big)
        [entry] = cluster.client.get(TFJOBS, cluster.namespace, big.name, decode_tfjob).status.waiting
        assert (entry.reason, entry.count) == ("QuotaExceeded", 3), message
        assert entry.message.startswith("ResourceQuota pods has no room for its pod")
    finally:
        cluster.client.delete(QUOTAS, cluster.namespace, "pods")


def said_about(job: JobOnCluster) -> str:
    """The message of Running=False, at most five seconds after the job was made."""

    def waits() -> str:
        condition = job.conditions().get("Running", {})
        assert condition.get("status") == "False", condition
        return str(condition["message"])

    return eventually(waits, within=5, every=0.1, what="the job says why it does not run")
