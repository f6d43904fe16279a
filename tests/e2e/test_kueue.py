"""Kueue drives TFJobs: its own webhooks, scheduler and controllers on a real API server, and this operator beside them.

There is no kubelet: the test decides when a pod runs.
"""

import json
import shlex
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from hack.faults.oracle.history import true_conditions
from tests.e2e.queues import PATIENCE, Commands, Queues, node_selector, queues, with_template
from tests.support.cluster import Json, decode
from tests.support.eventually import eventually, eventually_holds
from tests.support.gang_schedulers import NODES, paper_node
from tests.support.kueue import PRIORITIES, TOPOLOGIES
from tests.support.operated import JobOnCluster
from tfoperator.api.replicas.names import tensorboard_name
from tfoperator.kube.protocol.errors import InvalidError, NotFoundError
from tfoperator.kube.protocol.resources import PRIORITY_CLASSES
from tfoperator.sdk import QueueState

__all__ = ["queues"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", autouse=True)
def never_ready(queues: Queues) -> JobOnCluster:
    """A job whose pods don't begin to run; Kueue's patience with it passes while other tests run."""
    return queues.submit("never-ready", queues.queue(1), Worker=1)


@pytest.fixture
def commands(queues: Queues, tmp_path: Path) -> Commands:
    return Commands(queues, tmp_path)


def test_a_job_is_admitted_with_the_selectors_of_its_flavor(queues: Queues) -> None:
    queue = queues.queue(3, flavor={"nodeLabels": {"disk": "ssd"}})
    job = queues.submit("admitted", queue, PS=1, Worker=2)
    pods = queues.wait_running(job, "ps-0", "worker-0", "worker-1")
    assert [node_selector(pod) for pod in pods.values()] == [{"disk": "ssd"}] * 3
    assert queues.wait_queue(job, QueueState.ADMITTED).cluster_queue == queue
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    eventually(lambda: _is_finished(queues.workload(job)), within=PATIENCE, every=0.1, what="Kueue knows its end")
    queues.wait_queue(job, QueueState.FINISHED)


def _is_finished(workload: Json) -> bool:
    return "Finished" in true_conditions(workload["status"])


def test_a_job_without_quota_waits_says_why_and_runs_when_there_is_room(queues: Queues, commands: Commands) -> None:
    queue = queues.queue(2)
    first = queues.submit("first", queue, Worker=2)
    queues.wait_running(first, "worker-0", "worker-1")
    second = queues.submit("second", queue, Worker=2)
    reason = "insufficient unused quota for cpu"
    queues.wait_queue(second, QueueState.WAITING, reason, "2 more needed")
    queues.wait_held(second)
    described = commands("describe", "second").stdout
    assert f"Queue:        {queue}: Waiting: " in described
    assert reason in described
    rows = {line.split()[0]: line.rstrip() for line in commands("get", "first", "second").stdout.splitlines()}
    assert rows["first"].endswith(f"{queue}: Admitted")
    assert rows["second"].endswith(f"{queue}: Waiting")
    assert reason in commands("wait", "second", "--timeout", "0.1s", code=124).stderr
    first.play("Succeeded", "worker-0", leads_to="Succeeded")
    queues.wait_running(second, "worker-0", "worker-1")


def test_a_queue_that_is_not_there_is_named(queues: Queues) -> None:
    job = queues.submit("lost", "nosuch", Worker=1)
    queues.wait_queue(job, QueueState.WAITING, "LocalQueue nosuch doesn't exist")


def selector_of(job: JobOnCluster) -> Json:
    template = job.get()["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    return dict(template["spec"].get("nodeSelector") or {})


def test_a_preempted_job_gives_all_back_and_comes_back(queues: Queues) -> None:
    queue = queues.queue(2, flavor={"nodeLabels": {"disk": "ssd"}})
    queues.create(PRIORITIES, {"metadata": {"name": "urgent"}, "value": 1000})
    manifest = queues.manifest("preempted", queue, Worker=2)
    manifest["spec"]["runPolicy"]["restartScope"] = "Job"
    manifest["spec"]["tensorBoard"] = {"logDir": "gs://bucket/logs"}
    low = queues.submit_manifest(manifest)
    queues.wait_running(low, "worker-0", "worker-1")
    board = tensorboard_name("preempted")
    eventually(lambda: queues.deployment(board), within=PATIENCE, every=0.05, what="a TensorBoard")
    low.play("Succeeded", "worker-1")
    eventually(lambda: low.completed("Worker") == "1", within=PATIENCE, every=0.05, what="worker-1 has succeeded")

    high = queues.submit("urgent", queue, labels={"kueue.x-k8s.io/priority-class": "urgent"}, Worker=2)
    queues.wait_held(low)
    queues.wait_running(high, "worker-0", "worker-1")
    queues.wait_queue(low, QueueState.WAITING, "Preempted")
    eventually(lambda: queues.deployment(board) is None, within=PATIENCE, every=0.05, what="no TensorBoard")
    eventually(lambda: not selector_of(low), within=PATIENCE, every=0.05, what="Kueue has put the template back")
    assert low.restarts() == 0

    high.play("Succeeded", "worker-0", leads_to="Succeeded")
    again = queues.wait_running(low, "worker-0", "worker-1")
    assert node_selector(again["worker-1"]) == {"disk": "ssd"}
    eventually(lambda: queues.deployment(board), within=PATIENCE, every=0.05, what="its TensorBoard again")


def test_kueue_reads_a_jobs_priority(queues: Queues) -> None:
    queues.create(PRIORITY_CLASSES, {"metadata": {"name": "steady"}, "value": 77})
    queue = queues.queue(0)
    of_job = queues.submit("priority-of-job", queue, policy={"priorityClass": "steady"}, Worker=1)
    template = {"spec": {"priorityClassName": "steady"}}
    manifest = with_template(queues.manifest("priority-of-pods", queue, PS=1, Worker=1), "PS", template)
    of_pods = queues.submit_manifest(manifest)
    assert [queues.workload(job)["spec"]["priority"] for job in (of_job, of_pods)] == [77, 77]


def test_workers_that_follow_each_other_are_near_each_other(queues: Queues) -> None:
    hosts = ("near-a", "near-b")
    rack, hostname = "example.com/rack", "kubernetes.io/hostname"
    queues.create(
        TOPOLOGIES, {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": rack}, {"nodeLabel": hostname}]}}
    )
    with ExitStack() as stack:
        for host in hosts:
            stack.enter_context(paper_node(queues.client, host, cpu="2"))
            labels = {rack: "r1", hostname: host, "pool": "racked"}
            queues.client.patch(NODES, "", host, {"metadata": {"labels": labels}}, decode)
        queue = queues.queue(4, flavor={"nodeLabels": {"pool": "racked"}, "topologyName": "racks"})
        wish = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": rack}}}
        job = queues.submit_manifest(with_template(queues.manifest("racked", queue, Worker=4), "Worker", wish))
        job.wait_pods(*(f"worker-{index}" for index in range(4)), within=PATIENCE)

        def placed() -> list[str]:
            pods = job.pods()
            assert not any(pod["spec"].get("schedulingGates") for pod in pods.values()), "they wait for a place"
            return [node_selector(pods[f"worker-{index}"]).get(hostname, "") for index in range(4)]

        first, second, third, fourth = eventually(placed, within=PATIENCE, every=0.1, what="each worker has a place")
        assert {first, third} == set(hosts)
        assert (first, third) == (second, fourth)
        job.delete()


def test_an_inactive_workload_stops_its_job_and_suspending_names_that_way(queues: Queues, commands: Commands) -> None:
    job = queues.submit("stopped", queues.queue(1), Worker=1)
    queues.wait_running(job, "worker-0")

    def set_active(active: bool) -> None:
        name, change = queues.workload(job)["metadata"]["name"], json.dumps({"spec": {"active": active}})
        arguments = ["patch", "workloads.kueue.x-k8s.io", name, "-n", queues.namespace, "--type", "merge", "-p", change]
        if not queues.ours:  # there `tfoperator suspend` would be undone
            message = commands("resume" if active else "suspend", "stopped", code=1).stderr
            program, *named = shlex.split(message.partition(" the job through Kueue: ")[2])
            assert (program, json.loads(named.pop())) == ("kubectl", json.loads(arguments.pop())), message
            assert named == arguments
            arguments.append(change)
        queues.kubectl(*arguments)

    set_active(False)
    queues.wait_held(job)
    queues.wait_queue(job, QueueState.INACTIVE, "is not active")
    set_active(True)
    queues.wait_running(job, "worker-0")


@pytest.mark.parametrize("queues", ["theirs"], indirect=True)
def test_kueues_webhook_adds_nothing_to_a_job_without_a_queue(queues: Queues) -> None:
    manifest = queues.manifest("stock", "", PS=1, Worker=1)
    del manifest["spec"]["tfReplicaSpecs"]["PS"]["template"]
    job = queues.submit_manifest(manifest)
    assert "template" not in job.get()["spec"]["tfReplicaSpecs"]["PS"]
    pods = job.wait_pods("ps-0", "worker-0")
    assert pods["ps-0"]["spec"]["containers"][0]["image"] == "example.invalid/ps:1"
    without = queues.manifest("bad", "", Worker=1)
    del without["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    with pytest.raises(InvalidError, match="template is required"):
        queues.submit_manifest(without)


def test_a_job_whose_pods_do_not_run_in_time_gives_its_quota_back_and_tries_again(
    queues: Queues, never_ready: JobOnCluster
) -> None:
    def evicted() -> None:
        stats = queues.workload(never_ready)["status"].get("schedulingStats") or {}
        assert any(eviction["reason"] == "PodsReadyTimeout" for eviction in stats.get("evictions") or ()), stats

    eventually_holds(evicted, within=PATIENCE, every=0.2, what="Kueue has lost its patience")

    def runs() -> bool:
        with suppress(NotFoundError):  # Kueue may let go of it just now, once more
            never_ready.play("Running", "worker-0")
        return never_ready.conditions().get("Running", {}).get("status") == "True"

    eventually(runs, within=PATIENCE, every=0.2, what="it is admitted again, and runs")
