"""Changes while a job is in a queue, on a real Kueue: jobs, Workloads, queues, people's minds, pods that linger.

Each scenario is a row of the table in docs/reference/kueue-comparison.md. There is no kubelet: the test decides when a
pod runs.
"""

from pathlib import Path
from typing import Any

import pytest

from hack.faults.oracle.history import true_conditions
from tests.e2e.queues import PATIENCE, Commands, Queues, node_selector, queues, with_template
from tests.support.cluster import Json, decode
from tests.support.eventually import eventually, eventually_holds
from tests.support.kueue import ADMISSION_CHECKS, PRIORITIES
from tests.support.operated import JobOnCluster
from tfoperator.api.kueue.queues import MAX_EXECUTION_LABEL, PRIORITY_LABEL, QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.kube.protocol.errors import ForbiddenError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.sdk import QueueState

__all__ = ["queues"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]

LINGERS: Json = {"spec": {"terminationGracePeriodSeconds": 600}}


def running(queues: Queues, name: str, queue: str, *, labels: Json | None = None, **options: Any) -> JobOnCluster:
    job = queues.submit(name, queue, labels=labels, **options)
    queues.wait_running(job, *replicas_of(options))
    return job


def replicas_of(options: dict[str, Any]) -> list[str]:
    return [f"{kind.lower()}-{i}" for kind in ("PS", "Worker") for i in range(options.get(kind, 0))]


def lingering(queues: Queues, name: str, queue: str) -> JobOnCluster:
    """A job that runs, whose pod takes its time to end: it is on a node, and nobody there ends it but the test."""
    job = queues.submit_manifest(with_template(queues.manifest(name, queue, Worker=1), "Worker", LINGERS))
    job.wait_pods("worker-0", within=PATIENCE)
    job.bind("worker-0")
    job.play("Running", "worker-0", leads_to="Running")
    return job


def wait_terminating(queues: Queues, name: str) -> None:
    def terminates() -> bool:
        return bool(queues.client.get(PODS, queues.namespace, name, decode)["metadata"].get("deletionTimestamp"))

    eventually(terminates, within=PATIENCE, every=0.05, what=f"{name} is being deleted")


def set_label(queues: Queues, job: JobOnCluster, key: str, value: str | None) -> None:
    job.patch({"metadata": {"labels": {key: value}}})


def test_a_job_that_is_changed_while_it_waits_keeps_its_place(queues: Queues) -> None:
    queue = queues.queue(2)
    first = running(queues, "in-front", queue, Worker=2)
    job = queues.submit("too-large", queue, Worker=3)
    before = queues.workload(job)["metadata"]["uid"]
    queues.wait_queue(job, QueueState.WAITING, "quota for cpu")
    job.scale(Worker=2)
    queues.wait_queue(job, QueueState.WAITING, "2 more needed")
    first.play("Succeeded", "worker-0", leads_to="Succeeded")
    queues.wait_running(job, "worker-0", "worker-1")
    assert queues.workload(job)["metadata"]["uid"] == before


@pytest.mark.parametrize("what", ["replicas", "time limit"])
def test_a_running_job_that_is_changed_is_queued_again_without_its_pods(queues: Queues, what: str) -> None:
    job = running(queues, f"changed-{what[:4]}", queues.queue(2), Worker=1)
    workload, pod = queues.workload(job)["metadata"]["uid"], job.pod_uid("worker-0")
    if what == "replicas":
        job.scale(Worker=2)
    elif queues.ours:
        set_label(queues, job, MAX_EXECUTION_LABEL, "3600")
    else:
        with pytest.raises(ForbiddenError, match="immutable"):
            set_label(queues, job, MAX_EXECUTION_LABEL, "3600")
        return
    new = queues.workload(job, other_than=workload)
    job.wait_successor("worker-0", of=pod, within=PATIENCE)
    job.wait_pods("worker-0", *(["worker-1"] if what == "replicas" else []), within=PATIENCE)
    assert new["spec"].get("maximumExecutionTimeSeconds") == (None if what == "replicas" else 3600)
    assert job.restarts() == 0


def test_a_running_job_goes_to_another_queue_or_may_not(queues: Queues) -> None:
    here, there = queues.queue(1), queues.queue(1)
    job = running(queues, "moves", here, Worker=1)
    pod = job.pod_uid("worker-0")
    if not queues.ours:
        with pytest.raises(ForbiddenError, match="immutable"):
            set_label(queues, job, QUEUE_LABEL, there)
        return
    set_label(queues, job, QUEUE_LABEL, there)
    job.wait_successor("worker-0", of=pod, within=PATIENCE)
    queues.wait_reserved(here, 0)
    queues.wait_reserved(there, 1)


def test_a_job_whose_time_is_up_stops_and_is_inactive(queues: Queues) -> None:
    queue = queues.queue(1)
    job = running(queues, "time-is-up", queue, labels={MAX_EXECUTION_LABEL: "2"}, Worker=1)
    queues.wait_held(job)
    queues.wait_queue(job, QueueState.INACTIVE, "exceeding the maximum execution time")
    queues.wait_reserved(queue, 0)


def test_a_workload_that_is_deleted_takes_the_pods_along_and_another_one_is_made(queues: Queues) -> None:
    job = running(queues, "lost-workload", queues.queue(1), Worker=1)
    gone, pod = queues.workload(job), job.pod_uid("worker-0")
    queues.client.delete(WORKLOADS, queues.namespace, gone["metadata"]["name"])
    queues.workload(job, other_than=gone["metadata"]["uid"])
    job.wait_successor("worker-0", of=pod, within=PATIENCE)


@pytest.mark.parametrize("how", ["is deleted", "is preempted", "has ended"])
def test_quota_is_given_back_with_the_last_pod_or_before(queues: Queues, how: str) -> None:
    queue, short = queues.queue(1), how.split()[-1]
    job, urgent = lingering(queues, f"lingers-{short}", queue), f"urgent-{short}"
    queues.create(PRIORITIES, {"metadata": {"name": urgent}, "value": 1000})
    if how == "is deleted":
        job.delete()
    elif how == "has ended":
        job.cluster.set_phase(job.pod_name("worker-0"), "Running", ready=False)
        job.patch_spec(runPolicy={"activeDeadlineSeconds": 1})
        job.wait("Failed", within=PATIENCE)
    successor = queues.submit(f"after-{short}", queue, labels={PRIORITY_LABEL: urgent}, Worker=1)
    wait_terminating(queues, job.pod_name("worker-0"))
    if queues.ours:
        queues.wait_queue(successor, QueueState.WAITING, "quota")
        assert not successor.pods()
        job.cluster.end_pod(job.pod_name("worker-0"))
        queues.wait_running(successor, "worker-0")
    else:
        queues.wait_running(successor, "worker-0")
        job.cluster.end_pod(job.pod_name("worker-0"))


def test_what_a_succeeded_worker_does_not_need_goes_back_or_stays(queues: Queues) -> None:
    queue = queues.queue(2)
    manifest = queues.manifest("half-done", queue, Worker=2)
    manifest["spec"]["successPolicy"] = "AllWorkers"
    job = queues.submit_manifest(manifest)
    queues.wait_running(job, "worker-0", "worker-1")
    job.play("Succeeded", "worker-1")
    eventually(lambda: job.completed("Worker") == "1", within=PATIENCE, every=0.05, what="worker-1 has succeeded")
    queues.wait_reserved(queue, 1 if queues.ours else 2)
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    queues.wait_reserved(queue, 0)


def test_readiness_is_of_all_replicas_or_of_one(queues: Queues) -> None:
    job = queues.submit("half-ready", queues.queue(2), Worker=2)
    job.wait_pods("worker-0", "worker-1", within=PATIENCE)
    job.play("Running", "worker-0", leads_to="Running")

    def ready() -> bool:
        return "PodsReady" in true_conditions(queues.workload(job)["status"])

    if queues.ours:
        assert not ready()
        job.play("Running", "worker-1")
    eventually(ready, within=PATIENCE, every=0.1, what="Kueue knows that its pods are ready")


def test_an_elastic_job_begins_with_fewer_workers_or_waits(queues: Queues) -> None:
    manifest = queues.manifest("elastic", queues.queue(3), policy={"minAvailable": 2}, Worker=4)
    manifest["spec"]["enableDynamicWorker"] = True
    job = queues.submit_manifest(manifest)
    if queues.ours:
        queues.wait_running(job, "worker-0", "worker-1", "worker-2")
        assert job.get()["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 4
    else:
        queues.wait_queue(job, QueueState.WAITING, "quota for cpu")
        queues.wait_held(job)


def test_what_has_no_template_or_another_case_is_counted_or_not(queues: Queues) -> None:
    queue = queues.queue(1)
    manifest = queues.manifest("lower-case", queue, Chief=1, Worker=2)
    specs = manifest["spec"]["tfReplicaSpecs"]
    specs["worker"] = specs.pop("Worker")
    job = queues.submit_manifest(manifest)
    stock = queues.manifest("stock-ps", queues.queue(1), PS=1, Worker=1)
    del stock["spec"]["tfReplicaSpecs"]["PS"]["template"]
    without = queues.submit_manifest(stock)
    if queues.ours:
        queues.wait_queue(job, QueueState.WAITING, "quota for cpu")
        queues.wait_held(job)
        queues.wait_running(without, "ps-0", "worker-0")
        return
    job.wait_reasons("NotCountedByQueue")
    (event, *_) = [event for event in job.events() if event["reason"] == "NotCountedByQueue"]
    assert "doesn't count the pods of worker" in event["message"]
    queues.wait_running(job, "chief-0", "worker-0", "worker-1")
    queues.wait_held(without)


def test_suspending_leaves_the_queue_or_is_undone(queues: Queues, tmp_path: Path) -> None:
    queue, commands = queues.queue(1), Commands(queues, tmp_path)
    job = running(queues, "paused", queue, Worker=1)
    if not queues.ours:
        job.suspend()
        eventually(lambda: not job.get()["spec"]["runPolicy"]["suspend"], within=PATIENCE, every=0.1, what="undone")
        return
    commands("suspend", "paused")
    job.wait_pods(within=PATIENCE)
    job.wait("Suspended", within=PATIENCE)
    eventually(lambda: not queues.workloads(job), within=PATIENCE, every=0.1, what="no Workload")
    other = running(queues, "uses-the-pause", queue, Worker=1)
    commands("resume", "paused")
    queues.wait_queue(job, QueueState.WAITING, "quota for cpu")
    queues.wait_held(job)
    other.play("Succeeded", "worker-0", leads_to="Succeeded")
    queues.wait_running(job, "worker-0")


def test_the_label_of_a_waiting_job_is_taken_away(queues: Queues) -> None:
    job = queues.submit("unlabelled", queues.queue(0), Worker=1)
    queues.wait_queue(job, QueueState.WAITING, "quota for cpu")
    set_label(queues, job, QUEUE_LABEL, None)
    if queues.ours:
        queues.wait_running(job, "worker-0")
        eventually(lambda: not queues.workloads(job), within=PATIENCE, every=0.1, what="no Workload")
    else:
        queues.wait_held(job)


def test_a_changed_priority_holds_for_the_next_decision(queues: Queues) -> None:
    queue = queues.queue(1)
    queues.create(PRIORITIES, {"metadata": {"name": "soon"}, "value": 10})
    first = running(queues, "before-both", queue, Worker=1)
    patient, hurried = (queues.submit(name, queue, Worker=1) for name in ("patient", "hurried"))
    for job in (patient, hurried):
        queues.wait_queue(job, QueueState.WAITING)
    set_label(queues, hurried, PRIORITY_LABEL, "soon")
    queues.wait_held(first)
    queues.wait_running(hurried, "worker-0")
    assert queues.workload(hurried)["spec"]["priority"] == 10
    assert not patient.pods()


@pytest.mark.parametrize("contradicts", [False, True])
def test_an_admission_check_decides_and_says_what_pods_get(queues: Queues, contradicts: bool) -> None:
    name = f"check-{contradicts}".lower()
    queues.create(ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": {"controllerName": "example.com/check"}})
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    queues.client.patch(ADMISSION_CHECKS, "", name, {"status": {"conditions": [active]}}, decode, subresource="status")
    queue = queues.queue(1, admissionChecksStrategy={"admissionChecks": [{"name": name}]})
    chosen = {"spec": {"nodeSelector": {"zone": "b"}}} if contradicts else {}
    job = queues.submit_manifest(with_template(queues.manifest(name, queue, Worker=1), "Worker", chosen))
    queues.wait_queue(job, QueueState.CHECKING, f"admission check {name} is Pending")
    queues.wait_held(job)
    workload = queues.workload(job)
    pod_set = workload["spec"]["podSets"][0]["name"]
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    update = {"name": pod_set, "labels": {"slot": "7"}, "nodeSelector": {"zone": "a"}, "tolerations": [gpu]}
    (check,) = workload["status"]["admissionChecks"]
    done = check | {"state": "Ready", "message": "", "podSetUpdates": [update]}
    where = (WORKLOADS, queues.namespace, workload["metadata"]["name"])
    queues.client.patch(*where, {"status": {"admissionChecks": [done]}}, decode, subresource="status")
    if not contradicts:
        pod = queues.wait_running(job, "worker-0")["worker-0"]
        assert (node_selector(pod)["zone"], pod["metadata"]["labels"]["slot"]) == ("a", "7")
        assert gpu in pod["spec"]["tolerations"]
        return

    def is_failed_to_start() -> None:
        conditions = queues.workload(job)["status"]["conditions"]
        assert any(
            (condition["type"], condition["reason"]) == ("Finished", "FailedToStart") for condition in conditions
        ), conditions

    eventually_holds(is_failed_to_start, within=PATIENCE, every=0.1, what="the Workload can't start")
    assert not job.pods()
    queues.wait_reserved(queue, 0)
