"""What the Go operator's users complain about, one test per complaint that fails on the behaviour complained about.

The numbers are the threads of kubeflow/trainer. The evaluator's place (#650, #1139) is in test_peer_jobs.py, the
percentage policies (#1188) are in test_thresholds.py, memory (#1661) is in test_operator_cost.py, names that are too
long (#1101) in tests/contract, and the cluster of dynamic workers (#1763) in tests/unit/controller/pods.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from hack.controlplane import ControlPlane
from tests.e2e.conftest import COUNTED_USER
from tests.support.audit import AuditTrail
from tests.support.cli import Cli
from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operated import JobOnCluster, Operated, parse_time
from tests.support.operator_process import OperatorProcess
from tfoperator.kube.resources import PODS, SERVICES

pytestmark = pytest.mark.controlplane

NODE_LOST_MARGIN = 30
"""Seconds after the end of its grace period until a pod on a lost node is given up (PlanOptions.node_lost_margin)."""


def fails_retryably(job: JobOnCluster, replica: str) -> str:
    """Play a crash that is worth another try, and return the UID of the pod that comes after it."""
    return str(job.fail(replica, exit_code=137)["metadata"]["uid"])


# #720, #959: it takes half a minute, in which the other tests run; those that restart the operator come early, for what
# falls into a restart is noticed late.


@pytest.fixture(scope="module", autouse=True)
def on_a_lost_node(operated: Operated) -> tuple[JobOnCluster, float]:
    """A job whose worker 1 terminates on a lost node, and when its grace period is over."""
    job = operated.running("lost-node", restart_policy="ExitCode", Worker=2)
    job.bind("worker-1")
    job.play("Running", "worker-1", reason="NodeLost", disruption="DeletionByTaintManager")
    job.delete_pod("worker-1", grace_period_seconds=1)
    return job, parse_time(job.pods()["worker-1"]["metadata"]["deletionTimestamp"])


# #2045, #2342: the back-off limit is ignored.


def test_2045_the_back_off_limit_counts_over_recreations_and_restarts_of_the_operator(operated: Operated) -> None:
    job = operated.running("limited", restart_policy="ExitCode", run_policy={"backoffLimit": 2}, Worker=2)
    fails_retryably(job, "worker-0")
    operated.restart_operator()
    fails_retryably(job, "worker-1")
    eventually(lambda: job.restarts() == 2, every=0.05, what="two restarts are counted")
    operated.restart_operator(meanwhile=lambda: job.play("Failed", "worker-0", exit_code=137))
    failed = job.wait("Failed")
    assert "reached the specified backoff limit" in failed["message"]
    assert job.restarts() == 2, "what ends the job is not tried again"
    job.wait_pods("worker-0")  # its log tells why; the other is stopped


def test_2342_the_back_off_limit_counts_restarts_in_place_and_keeps_them_when_the_pod_goes(operated: Operated) -> None:
    job = operated.running("in-place", restart_policy="OnFailure", run_policy={"backoffLimit": 3}, Worker=1)
    job.play("Running", "worker-0", restarts=2)
    eventually(lambda: job.restarts() == 2, every=0.05, what="two restarts are counted")
    uid = job.pod_uid("worker-0")
    job.delete_pod("worker-0")
    job.wait_successor("worker-0", of=uid)
    job.play("Running", "worker-0")
    eventually(lambda: job.restarts() == 3, every=0.05, what="the lost pod is the third")
    job.wait("Running")
    operated.settle()
    assert job.state() == "Running"
    job.play("Running", "worker-0", restarts=1)
    assert "reached the specified backoff limit" in job.wait("Failed")["message"]


# #1560, #2124, #999: a deleted or preempted pod fails the job despite its policy.


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "ExitCode", "Never"])
def test_1560_a_running_pod_that_is_deleted_restarts_and_does_not_fail_the_job(operated: Operated, policy: str) -> None:
    job = operated.running(f"deleted-{policy.lower()}", restart_policy=policy, Worker=2)
    job.bind("worker-1")
    uid = job.pod_uid("worker-1")
    job.delete_pod("worker-1")
    job.wait("Restarting")
    operated.settle()
    assert job.pod_uid("worker-1") == uid, "it terminates gracefully; two pods of one name can't be"
    job.play("Failed", "worker-1", exit_code=1)  # what a trainer makes of SIGTERM is not its verdict on the job
    job.cluster.end_pod(job.pod_name("worker-1"))
    job.wait_successor("worker-1", of=uid)
    job.play("Running", "worker-1", leads_to="Running")
    assert "Failed" not in job.conditions()
    assert job.restarts() == 1


@pytest.mark.parametrize(
    ("how", "report"),
    [
        ("evicted", {"reason": "Evicted"}),
        ("preempted", {"disruption": "PreemptionByScheduler", "exit_code": 1}),
        ("shut-down", {"reason": "Terminated", "exit_code": 1}),
        ("node-lost", {"reason": "NodeLost"}),
    ],
)
@pytest.mark.parametrize("policy", ["ExitCode", "Never"])
def test_2124_a_pod_that_the_cluster_takes_is_made_anew_also_where_programs_may_not_fail(
    operated: Operated, policy: str, how: str, report: Json
) -> None:
    job = operated.running(f"{how}-{policy.lower()}", restart_policy=policy, Worker=2)
    job.fail("worker-1", **report)
    job.play("Running", "worker-1", leads_to="Running")
    assert "Failed" not in job.conditions()


def test_999_a_pod_lost_while_there_was_no_operator_comes_back_and_is_counted(operated: Operated) -> None:
    job = operated.running("unseen", restart_policy="OnFailure", Worker=2)
    uid = job.pod_uid("worker-1")
    operated.restart_operator(meanwhile=lambda: job.delete_pod("worker-1"))
    job.wait_successor("worker-1", of=uid)
    eventually(lambda: job.restarts() == 1, every=0.05, what="it is counted")
    assert "Failed" not in job.conditions()


# #1120, #1306, #1394: loops of "already exists".


@pytest.mark.parametrize("kind", ["pod", "service"])
def test_1120_a_foreign_object_in_the_way_is_reported_once_and_waited_for(operated: Operated, kind: str) -> None:
    name = f"stranger-{kind}"
    cluster = operated.cluster
    container = {"name": "c", "image": "example.invalid/x:1"}
    stranger: Json = {"metadata": {"name": f"{name}-worker-1"}, "spec": {"containers": [container]}}
    if kind == "service":
        stranger["spec"] = {"ports": [{"port": 80}]}
    path = PODS if kind == "pod" else SERVICES
    cluster.client.create(path, cluster.namespace, stranger, decode)
    job = operated.job(name, Worker=2)
    job.wait_pods("worker-0")
    reason = f"FailedCreate{kind.capitalize()}"
    job.wait_reasons(reason)
    job.play("Running", "worker-0")
    job.wait("Running")  # the others go on
    cluster.client.delete(path, cluster.namespace, f"{name}-worker-1")
    job.wait_pods("worker-0", "worker-1")
    [event] = [event for event in job.events() if event["reason"] == reason]
    assert event.get("count", 1) == 1
    assert "is in the way" in event["message"]


# #2361, #1706, #2411: pods are made one after another.


def test_2361_pods_are_made_in_parallel_and_after_their_services(
    plane: ControlPlane, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    trail = AuditTrail(plane.audit_log, COUNTED_USER)
    start_operator(kubeconfig=plane.kubeconfig_for(COUNTED_USER))
    cluster.submit(tfjob("wide", Worker=30))
    cluster.wait_pods(30)

    def creations() -> dict[str, tuple[datetime, datetime]]:
        """Begin and end of the creation of each pod."""
        found = {}
        for entry in trail.entries():
            what = entry.get("objectRef", {})
            if (entry["verb"], what.get("resource"), what.get("namespace")) == ("create", "pods", cluster.namespace):
                begin, end = entry["requestReceivedTimestamp"], entry["stageTimestamp"]
                found[what["name"]] = datetime.fromisoformat(begin), datetime.fromisoformat(end)
        return found

    eventually(lambda: len(creations()) == 30, every=0.1, what="the audit log is written")
    pods = creations()
    at_once = max(sum(begin <= other < end for begin, end in pods.values()) for other, _ in pods.values())
    assert 2 <= at_once <= 16
    # Not by the log's times: an answer reaches the operator before the log says that it was given.
    made = cluster.services(), cluster.pods()
    orders = [{name: int(one["metadata"]["resourceVersion"]) for name, one in some.items()} for some in made]
    assert all(orders[0][name] < order for name, order in orders[1].items())


# #1795: with dynamic workers, scaling down fails the job.


def test_1795_dynamic_workers_come_and_go_and_a_worker_on_its_way_out_fails_nothing(operated: Operated) -> None:
    job = operated.running("elastic", spec={"enableDynamicWorker": True}, Chief=1, Worker=3)
    job.bind("worker-1", "worker-2")
    job.scale(Worker=1)
    terminating = ("worker-1", "worker-2")
    eventually(
        lambda: all(job.pods()[one]["metadata"].get("deletionTimestamp") for one in terminating),
        every=0.05,
        what="two are told to go",
    )
    operated.settle()
    assert job.state() == "Running", "running pods that terminate have not failed"
    job.play("Failed", "worker-2", exit_code=1)
    for replica in terminating:
        job.cluster.end_pod(job.pod_name(replica))
    job.wait_pods("chief-0", "worker-0")
    job.scale(Worker=2)
    job.wait_pods("chief-0", "worker-0", "worker-1")
    assert "Failed" not in job.conditions()
    assert job.restarts() == 0


# #1241: a misplaced cleanPodPolicy is dropped without a word.


MISPLACED = {**tfjob("misplaced", Worker=1)}
MISPLACED["spec"] = {**MISPLACED["spec"], "cleanPodPolicy": "All"}


def test_1241_a_misplaced_field_is_refused_by_kubectl_and_explained_by_validate(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(MISPLACED))
    applied = Kubectl(plane.kubeconfig, cluster.namespace).run("create", "--filename", str(path))
    assert applied.returncode != 0
    assert 'unknown field "spec.cleanPodPolicy"' in applied.stderr
    said = Cli(tmp_path).run("validate", str(path))
    assert "spec.cleanPodPolicy" in said.stdout + said.stderr
    assert "it belongs in spec.runPolicy" in said.stdout + said.stderr


# Not from a thread: jobs wait for one another.


# Last, since the others run meanwhile.


def test_720_a_pod_that_terminates_on_a_lost_node_is_given_up_and_made_anew(
    operated: Operated, on_a_lost_node: tuple[JobOnCluster, float]
) -> None:
    job, over = on_a_lost_node

    def replaced() -> bool:
        pod = job.pods().get("worker-1")
        return pod is not None and "deletionTimestamp" not in pod["metadata"]

    eventually(replaced, within=NODE_LOST_MARGIN + 60, every=0.1, what="a new pod of worker-1")
    given_up = parse_time(job.pods()["worker-1"]["metadata"]["creationTimestamp"])
    assert given_up - over >= NODE_LOST_MARGIN
    job.play("Running", "worker-1", leads_to="Running")
    assert "Failed" not in job.conditions()
    assert job.restarts() == 1
