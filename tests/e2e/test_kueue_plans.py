"""Quota is never overdrawn, whatever happens and whoever is killed, and each right to Kueue's objects is needed."""

import time
from collections.abc import Iterator

import pytest

from hack.chart import roles
from tests.e2e.conftest import OPERATOR_USER
from tests.e2e.queue_plans import CPUS, Judge, plans_cluster, play
from tests.e2e.queues import PATIENCE, Queues
from tests.support.audit import AuditTrail, granted
from tests.support.cluster import Cluster
from tests.support.eventually import eventually, eventually_holds
from tfoperator.api.kueue.queues import PRIORITY_LABEL

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    # Without streaming lists, as before Kubernetes 1.34, the operator lists before it watches.
    with plans_cluster(tmp_path_factory.mktemp("plans"), "ours", "--feature-gates=WatchList=false") as found:
        yield found


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

        def says_so() -> None:
            for job in waiting:
                assert job.conditions().get("Admitted", {}).get("reason") == "NoAnswer", job.conditions()

        eventually_holds(says_so, within=20, what="the jobs that wait say that Kueue does not answer")
    finally:
        ours.kueue.start()
    began = time.monotonic()
    found = [ours.workload(job) for job in waiting]
    assert time.monotonic() - began < 10
    times = [one["metadata"]["creationTimestamp"] for one in found]
    assert times == sorted(times)
    ours.wait_reserved(queue, CPUS)  # `ends` and `late` have given theirs back, and the three have it
    for job in waiting:
        ours.wait_running(job, "worker-0")
