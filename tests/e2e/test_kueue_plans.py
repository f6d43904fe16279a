"""Quota is never overdrawn, whatever happens and whoever is killed, and each right to Kueue's objects is needed."""

import time
from collections.abc import Iterator

import pytest

from hack.chart import roles
from tests.e2e.conftest import OPERATOR_USER
from tests.e2e.queue_plans import CPUS, Judge, plans_cluster, play, play_node
from tests.e2e.queues import PATIENCE, Queues
from tests.support.audit import AuditTrail, granted
from tests.support.cluster import Cluster
from tests.support.eventually import eventually, eventually_holds
from tests.support.operated import JobOnCluster
from tfoperator.api.kueue.queues import PRIORITY_LABEL

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    # Without streaming lists, as before Kubernetes 1.34, the operator lists before it watches.
    with plans_cluster(tmp_path_factory.mktemp("plans"), "ours", "--feature-gates=WatchList=false") as started:
        yield started


def test_the_operator_needs_these_rights_to_kueue_and_no_others(ours: Queues) -> None:
    trail = AuditTrail(ours.plane.audit_log, OPERATOR_USER)
    ours.operator.kill()
    ours.operator.start().wait_ready()
    queue = ours.queue(2)
    job = ours.submit("rights", queue, Worker=1)
    ours.submit("of-class", queue, labels={PRIORITY_LABEL: "low"}, Worker=1)
    ours.submit("of-pods", queue, policy={"priorityClass": "nosuch"}, Worker=1)
    ours.wait_running(job, "worker-0")
    job.suspend()
    eventually(lambda: not ours.workloads(job), within=PATIENCE, every=0.1, what="no Workload")
    trail.wait_used(granted([*roles()["kueue"], *roles()["kueue-classes"]]))
    assert trail.refused() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_no_plan_overdraws_a_quota(ours: Queues, seed: int) -> None:
    plan = play(ours, seed)
    assert not plan.judge.broken
    assert plan.kills["kueue"], "a plan without a killed Kueue"


def play_nodes(job: JobOnCluster, *, full_for: str = "") -> None:
    """Bind pods, but not a replica's pod for which the node is full; run them; end deleted pods."""
    for name, pod in job.pods().items():
        play_node(job.cluster, pod, finds_node=name != full_for)


def test_an_elastic_job_gives_quota_back_and_grows_in_its_queue_when_there_is_quota_again(ours: Queues) -> None:
    ours.move_to(Cluster(ours.client, "elastic"))
    queue, judge = ours.queue(CPUS), Judge(ours)
    other = ours.submit("other", queue, Worker=3)
    ours.wait_running(other, "worker-0", "worker-1", "worker-2")
    manifest = ours.manifest("elastic", queue, restart_policy="OnFailure", Worker=3)
    manifest["spec"]["elasticPolicy"] = {"minReplicas": 1, "shrinkAfterSeconds": 1, "growAfterSeconds": 2}
    job = ours.submit_manifest(manifest)
    ours.wait_running(job, "worker-0")
    ours.wait_reserved(queue, 4)
    first = ours.workload(job)
    eventually(lambda: len(ours.workloads(job)) == 2, within=PATIENCE, every=0.1, what="it asks for more")
    assert set(job.pods()) == {"worker-0"}, "it keeps what it has"
    other.play("Succeeded", "worker-0", leads_to="Succeeded")

    def grows() -> None:
        play_nodes(job)
        running = {name for name, pod in job.pods().items() if pod["status"].get("phase") == "Running"}
        assert running == {"worker-0", "worker-1", "worker-2"}, running

    eventually_holds(grows, within=PATIENCE, every=0.1, what="it has all of its workers")
    [second] = ours.workloads(job)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    ours.wait_reserved(queue, 3)
    job.patch_spec(elasticPolicy={"growAfterSeconds": 600})
    job.delete_pod("worker-2")

    def shrinks() -> None:
        play_nodes(job, full_for="worker-2")
        assert job.status()["elastic"]["workers"] == 2, job.status()

    eventually_holds(shrinks, within=PATIENCE, every=0.1, what="it goes on with two workers")
    for _ in range(3):
        play_nodes(job, full_for="worker-2")
    ours.wait_reserved(queue, 2)
    job.delete()
    judge.end()
    assert judge.broken == []


def test_a_data_service_is_a_pod_set_of_its_jobs_workload_and_ends_with_it(ours: Queues) -> None:
    ours.move_to(Cluster(ours.client, "data-service"))
    queue = ours.queue(CPUS)
    manifest = ours.manifest("fed", queue, Worker=1)
    manifest["spec"]["dataService"] = {"workers": 2}
    job = ours.submit_manifest(manifest)
    counts = {pod_set["name"]: pod_set["count"] for pod_set in ours.workload(job)["spec"]["podSets"]}
    assert counts == {"worker": 1, "data-service": 3}
    ours.wait_reserved(queue, CPUS)
    names = {"fed-worker-0", "fed-dispatcher-0", "fed-dataworker-0", "fed-dataworker-1"}
    eventually(lambda: set(ours.cluster.pods()) == names, within=PATIENCE, every=0.1, what="all are admitted")
    for name in names:
        ours.cluster.set_phase(name, "Running")
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    ours.wait_reserved(queue, 0)


def test_replicas_that_gave_their_quota_back_have_it_again_before_they_start_again(ours: Queues) -> None:
    ours.move_to(Cluster(ours.client, "whole-restart"))
    queue, judge = ours.queue(CPUS), Judge(ours)
    workers = ["worker-0", "worker-1", "worker-2"]
    job = ours.submit("again", queue, restart_policy="ExitCode", Chief=1, Worker=3)
    ours.wait_running(job, "chief-0", *workers)
    job.play("Succeeded", *workers)
    ours.wait_reserved(queue, 1)
    other = ours.submit("other", queue, Worker=3)
    ours.wait_running(other, *workers)
    job.patch_spec(runPolicy={"restartScope": "Job"})
    job.play("Failed", "chief-0", exit_code=143)

    def restarts() -> None:
        held = job.conditions().get("Admitted", {}).get("status") == "False"
        running = [pod["status"].get("phase", "Pending") in ("Pending", "Running") for pod in job.pods().values()]
        assert job.status().get("jobRestarts") == 1
        assert held or sum(running) == CPUS

    eventually_holds(restarts, within=PATIENCE, every=0.05, what="all of its replicas start again, or wait for quota")
    if job.conditions()["Admitted"]["status"] == "False":
        ours.wait_held(job)
        other.play("Succeeded", "worker-0", leads_to="Succeeded")
        ours.wait_running(job, "chief-0", *workers)
    judge.end()
    assert judge.broken == []
    ours.wait_reserved(queue, CPUS)


def test_jobs_run_end_and_restart_without_kueue_and_are_queued_in_their_order_when_it_is_back(ours: Queues) -> None:
    ours.move_to(Cluster(ours.client, "kueue-away"))
    queue = ours.queue(CPUS)
    with_deadline = ours.manifest("late", queue, Worker=1)
    with_deadline["spec"]["runPolicy"]["activeDeadlineSeconds"] = 20
    ends = ours.submit("ends", queue, Worker=1)
    restarts = ours.submit("restarts", queue, restart_policy="ExitCode", Worker=1)
    late = ours.submit_manifest(with_deadline)
    for job in (ends, restarts, late):
        ours.wait_running(job, "worker-0")
    # Kueue's webhook for jobs lets none be submitted without it: the operator sees these when Kueue is away.
    ours.operator.kill()
    waiting = [ours.submit(f"waits-{number}", queue, Worker=1) for number in (2, 1, 3)]
    ours.kueue.kill()
    ours.operator.start().wait_ready()
    try:
        ends.play("Succeeded", "worker-0", leads_to="Succeeded")
        before = restarts.pods()["worker-0"]["metadata"]["uid"]
        restarts.play("Failed", "worker-0", exit_code=137)
        eventually(
            lambda: restarts.pods().get("worker-0", {"metadata": {"uid": before}})["metadata"]["uid"] != before,
            within=10,
            what="it starts again",
        )
        late.wait("Failed", within=30)

        def show_no_answer() -> None:
            for job in waiting:
                assert job.conditions().get("Admitted", {}).get("reason") == "NoAnswer", job.conditions()

        eventually_holds(show_no_answer, within=20, what="the jobs that wait say that Kueue does not answer")
    finally:
        ours.kueue.start()
    began = time.monotonic()
    workloads = [ours.workload(job) for job in waiting]
    assert time.monotonic() - began < 10
    times = [workload["metadata"]["creationTimestamp"] for workload in workloads]
    assert times == sorted(times)
    ours.wait_reserved(queue, CPUS)  # `ends` and `late` have given theirs back, and the three have it
    for job in waiting:
        ours.wait_running(job, "worker-0")
