"""MultiKueue drives TFJobs: two control planes, a real Kueue in each, jobs made in the manager that run in the worker.

There is no kubelet: the test decides when a pod runs.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.multikueue import RIGHTS_IN_WORKER, WORKER, Joined, TwoClusters, two_clusters
from tests.e2e.queues import PATIENCE, Commands
from tests.support.audit import granted
from tests.support.cluster import Json
from tests.support.eventually import eventually, eventually_holds
from tests.support.operated import JobOnCluster
from tfoperator.api.fields.limits import MANAGED_BY_MULTIKUEUE
from tfoperator.api.kueue.queues import not_carried
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.kube.protocol.errors import InvalidError, NotFoundError
from tfoperator.sdk import JobElsewhere, QueueState

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]

OWN_FIELDS: Json = {
    "minSucceededWorkers": 1,
    "maxFailedWorkers": "20%",
    "clusterArguments": True,
    "evaluatorInCluster": True,
    "network": "PerJob",
    "checkpoint": {"mountPath": "/ckpt", "volume": {"emptyDir": {}}},
    "tensorBoard": {"logDir": "gs://bucket/logs"},
    "progress": {},
}
"""Of a TFJob's spec: those that the Go operator doesn't know."""

OWN_POLICIES: Json = {"restartScope": "Job", "progressDeadlineSeconds": 600, "onStall": "Restart"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    with two_clusters(tmp_path_factory.mktemp("multikueue")) as clusters:
        yield clusters


@pytest.fixture(params=["plain", "operated"])
def either(both: TwoClusters, request: pytest.FixtureRequest) -> Joined:
    """A namespace whose manager has no operator of ours, and a namespace whose manager has our operator."""
    joined: Joined = getattr(both, request.param)
    return joined


@pytest.fixture
def plain(both: TwoClusters) -> Joined:
    return both.plain


@pytest.fixture
def commands(plain: Joined, tmp_path: Path) -> Commands:
    """Commands against the manager."""
    return Commands(plain.manager, tmp_path)


def copied(status: Json) -> Json:
    """Return the part of a status that MultiKueue copies."""
    counts = {
        kind: {name: counters[name] for name in ("active", "succeeded", "failed") if counters.get(name)}
        for kind, counters in status.get("replicaStatuses", {}).items()
    }
    names = ("conditions", "startTime", "completionTime", "lastReconcileTime")
    return {**{name: status[name] for name in names if name in status}, "replicaStatuses": counts}


def test_a_job_runs_in_the_worker_and_the_manager_tells_of_it(either: Joined) -> None:
    job = either.submit("train", PS=1, Worker=1)
    assert job.get()["spec"]["runPolicy"]["managedBy"] == MANAGED_BY_MULTIKUEUE, "Kueue's webhook sets it"
    remote = either.remote(job)
    assert "managedBy" not in remote.get()["spec"]["runPolicy"]
    either.worker.wait_running(remote, "ps-0", "worker-0")

    def is_copied() -> bool:
        here, there = copied(job.status()), copied(remote.status())
        assert here == there, (here, there)
        return bool(here["startTime"] and here["replicaStatuses"]["PS"]["active"])

    job.wait("Running", within=PATIENCE)
    eventually(is_copied, within=PATIENCE, every=0.2, what="all is copied")
    queue = either.manager.wait_queue(job, QueueState.ADMITTED)
    assert (queue.cluster, queue.problem) == (WORKER, "")
    remote.play("Succeeded", "worker-0")
    job.wait("Succeeded", within=PATIENCE)
    assert job.status()["completionTime"]
    either.wait_remote_gone(job)
    either.manager.wait_queue(job, QueueState.FINISHED)
    assert (job.pods(), job.services()) == ({}, {})
    wrote = {
        field["manager"] for field in job.get()["metadata"]["managedFields"] if field.get("subresource") == "status"
    }
    assert wrote == {"kueue"}, "an operator in the manager leaves it alone"
    job.delete()
    eventually(job.is_gone, within=PATIENCE, every=0.05, what="it is deleted")

    again, _ = either.running("train")
    again.delete()
    either.wait_remote_gone(again)


def test_a_failure_is_told_even_of_a_job_without_time_to_live(plain: Joined, commands: Commands) -> None:
    job, remote = plain.running("fails", policy={"ttlSecondsAfterFinished": 0}, restart_policy="Never")
    message = commands("logs", "fails", code=1).stderr
    assert f"it runs on cluster {WORKER}, where its pods and their logs are" in message
    remote.play("Failed", "worker-0", exit_code=3)
    assert "exited with code 3" in job.wait("Failed", within=PATIENCE)["message"]
    plain.wait_remote_gone(job)
    assert "has failed" in commands("wait", "fails", code=1).stderr
    with pytest.raises(JobElsewhere, match=f"it ran on cluster {WORKER}"):
        plain.manager.sdk.get_job_logs("fails")


def test_a_job_that_waits_for_a_cluster_says_which_was_asked(plain: Joined, commands: Commands) -> None:
    job = plain.submit("big", Worker=3)
    offered = f"offered to cluster {WORKER}"
    plain.manager.wait_queue(job, QueueState.CHECKING, f"admission check {WORKER} is Pending", offered)
    assert offered in commands("wait", "big", "--timeout", "0.1s", code=124).stderr
    with pytest.raises(InvalidError, match="can't be changed"):
        job.patch_spec(runPolicy={"managedBy": None})
    job.delete()
    plain.wait_remote_gone(job)


def test_what_is_left_behind_is_told(plain: Joined, commands: Commands, tmp_path: Path) -> None:
    manifest = plain.manager.manifest("whole", plain.queue, Worker=1)
    manifest["spec"] |= OWN_FIELDS
    manifest["spec"]["runPolicy"] |= OWN_POLICIES
    file = tmp_path / "whole.json"
    file.write_text(json.dumps({"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, **manifest}))
    warned = commands("submit", str(file), code=0).stderr
    job = JobOnCluster(plain.manager.cluster, plain.manager.cluster.job("whole"))
    here, there = job.get()["spec"], plain.remote(job).get()["spec"]
    lost = {f"spec.{name}" for name in here.keys() - there.keys()}
    lost |= {f"spec.runPolicy.{name}" for name in here["runPolicy"].keys() - there["runPolicy"].keys()}
    assert lost - {"spec.runPolicy.managedBy"} == set(not_carried(decode_tfjob(json.dumps(job.get()).encode())))
    assert len(lost) == len(OWN_FIELDS) + len(OWN_POLICIES) + 1
    words = "has no effect: MultiKueue does not copy this field"
    assert all(f"warning: {field}: {words}" in warned for field in lost - {"spec.runPolicy.managedBy"})
    assert "Left behind:  spec.minSucceededWorkers, " in commands("describe", "whole").stdout
    job.delete()
    plain.wait_remote_gone(job)


def test_a_job_that_the_worker_preempts_comes_back_there(plain: Joined) -> None:
    job, remote = plain.running("preempted")
    plain.worker.set_stop_policy(plain.queue, "HoldAndDrain")
    eventually(lambda: not remote.pods(), within=PATIENCE, every=0.05, what="it has let go of its pod")
    plain.worker.set_stop_policy(plain.queue, "None")

    def has_succeeded_there() -> bool:
        with suppress(NotFoundError):  # a manager that notices the preemption in time creates the job there again
            remote.play("Succeeded", "worker-0")
        return job.conditions().get("Succeeded", {}).get("status") == "True"

    eventually(has_succeeded_there, within=PATIENCE, every=0.2, what="it comes back there")
    plain.wait_remote_gone(job)


def test_a_worker_that_is_away_is_told_and_its_jobs_go_on(both: TwoClusters, plain: Joined, commands: Commands) -> None:
    job, remote = plain.running("lonely")

    def is_unreachable() -> None:
        queue = plain.manager.sdk.get_job_queue(job.name)
        assert queue is not None
        assert queue.state is QueueState.ADMITTED
        assert "Kueue can't reach now (" in queue.problem, queue

    with both.worker_away():
        eventually_holds(is_unreachable, within=PATIENCE, every=0.2, what="the worker is away")
        assert f"runs on cluster {WORKER}, which Kueue can't reach now" in commands("describe", "lonely").stdout
        late = plain.submit("late", Worker=1)
        plain.manager.wait_queue(late, QueueState.WAITING, f"ClusterQueue {plain.queue} is inactive")
    remote.play("Succeeded", "worker-0")
    job.wait("Succeeded", within=PATIENCE)
    plain.remote(late)
    late.delete()
    plain.wait_remote_gone(late)


def test_the_manager_stops_a_job_and_lets_it_go_on_with_these_rights_in_the_worker_and_no_others(
    both: TwoClusters, plain: Joined, commands: Commands
) -> None:
    manager, (job, _) = plain.manager, plain.running("rights")
    workload = plain.workload(job)["name"]
    assert (
        f"Suspend the job through Kueue: kubectl patch workloads.kueue.x-k8s.io {workload}"
        in commands("suspend", "rights", code=1).stderr
    )
    manager.set_stop_policy(plain.queue, "HoldAndDrain")
    plain.wait_stopped(job)
    manager.set_stop_policy(plain.queue, "None")
    plain.worker.wait_running(plain.remote(job), "worker-0")
    job.wait("Running", within=PATIENCE)
    manager.set_active(workload, False)
    plain.wait_stopped(job)
    manager.wait_queue(job, QueueState.INACTIVE)
    manager.set_active(workload, True)
    remote = plain.remote(job)
    plain.worker.wait_running(remote, "worker-0")
    remote.play("Succeeded", "worker-0")
    job.wait("Succeeded", within=PATIENCE)
    plain.wait_remote_gone(job)

    both.trail.wait_used(granted(RIGHTS_IN_WORKER))
    used = {right for right in both.trail.used() if not right.resource.startswith("/")}
    assert used == granted(RIGHTS_IN_WORKER)
    assert both.trail.refused() == []
