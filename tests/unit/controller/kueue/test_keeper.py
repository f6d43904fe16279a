"""Workloads whose jobs are gone or have left their queues, and Workloads that a new leader does not see."""

from typing import Any

import pytest

from hack.enumeration.sieve.happenings import labels
from hack.enumeration.sieve.queues import ADMITTED, queued, shape
from hack.enumeration.world.operator import SteppedOperator
from hack.enumeration.world.server import DirectClient
from hack.enumeration.world.world import Move, World
from hack.faults.plan.steps import Act, Step
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tfoperator.api.kueue.queues import JOB_UID_LABEL, POD_SETS_ANNOTATION, QUEUE_LABEL, REPLACES_ANNOTATION
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.replicas.names import job_labels
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller.kueue.objects import IN_USE
from tfoperator.controller.kueue.pod_sets import workload_name
from tfoperator.controller.ledger import StaleCache
from tfoperator.kube.protocol.resources import PODS


def test_the_quota_of_a_job_that_is_gone_is_given_back_after_its_pods_and_asked_for_ever_less_often() -> None:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job", "uid": "u", "controller": True}
    meta = {"namespace": "ns", "ownerReferences": [owner]}
    going = {"labels": {JOB_UID_LABEL: "u"}, "annotations": {POD_SETS_ANNOTATION: "0123"}, "finalizers": [IN_USE]}
    with Harness(kueue=True) as harness:
        workloads, pods = harness.informers.kueue.workloads.lister, harness.informers.pods.lister
        pod = {"name": "job-worker-0", "labels": job_labels("job"), **meta}
        harness.api.put(PODS, {"metadata": pod, "status": {"phase": "Running"}})
        going["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        harness.api.put(WORKLOADS, {"metadata": {"name": "w", **going, **meta}})
        eventually(lambda: workloads.find("ns/w") and pods.find("ns/job-worker-0"), within=10)
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("patch", "workloads") == 0, "its pod runs"
        # The state that a new leader sees if its first list of pods is older than the pods.
        indexer, cached_pod = harness.informers.pods.informers[0].indexer, pods.find("ns/job-worker-0")
        indexer.delete("ns/job-worker-0")
        with pytest.raises(StaleCache, match="job-worker-0 runs"):
            harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("patch", "workloads") == 0
        indexer.add(cached_pod)
        harness.api.remove(PODS, "ns", "job-worker-0")
        eventually(lambda: pods.find("ns/job-worker-0") is None, within=10)
        harness.api.fail("patch", "workloads", api_error(500), times=3)
        for _ in range(3):
            harness.controller._process("ns/job")
        assert harness.queue.num_requeues("ns/job") == 3, "while that is refused, the waits grow"
        harness.controller._process("ns/job")
        assert harness.queue.num_requeues("ns/job") == 0
        assert harness.api.objects(WORKLOADS) == [], "its deletion has waited for the finalizer alone"


def make_priorities(world: World) -> str:
    return world.kueue.make_priorities()


class RacingWorld(World):
    """Kueue admits the Workload of a job that waits just before the operator's first patch of that Workload arrives."""

    def __init__(self) -> None:
        super().__init__(queued("a job leaves its queue", shape()))
        self._start(leads=True)
        flavor, create = ADMITTED[0], Step(0, Act.CREATE)
        for move in (flavor, create, labels("queue-name", None)):
            self.run_for(self.pause_before(move))
            self.act(move) if isinstance(move, Step) else move(self)
        self.run_for(5)

    def client_of(self, who: list[SteppedOperator]) -> DirectClient:
        client = super().client_of(who)
        there = client.patch

        def late(resource: Any, namespace: str, name: str, patch: Any, *arguments: Any, **options: Any) -> Any:
            if resource is WORKLOADS and "finalizers" in patch.get("metadata", {}) and not self.kueue.has_room:
                self.kueue.has_room = True
                assert self.kueue.act()
            return there(resource, namespace, name, patch, *arguments, **options)

        client.patch = late  # type: ignore[method-assign]
        return client


def test_a_job_that_leaves_its_queue_while_kueue_admits_it_runs_without_quota() -> None:
    world = RacingWorld()
    assert world.kueue.has_room, "the Workload was admitted"
    assert [pod["metadata"]["name"] for pod in world.recorder.current("Pod")] == ["job-0-worker-0"]
    assert world.recorder.current("Workload") == [], "the job needs no quota"


def test_a_job_that_runs_continues_if_its_new_priority_class_does_not_exist() -> None:
    world = World(queued("a job gets a priority class that does not exist", shape(priority="calm")))
    world._start(leads=True)

    def play(*moves: Move) -> None:
        for move in moves:
            world.run_for(world.pause_before(move))
            world.act(move) if isinstance(move, Step) else move(world)
        world.run_for(5)

    def priority() -> int:
        return int(world.recorder.current("Workload")[0]["spec"]["priority"])

    play(make_priorities, *ADMITTED, labels("priority-class", "nosuch"))
    (pod,) = world.recorder.current("Pod")
    assert "deletionTimestamp" not in pod["metadata"], "nothing is lost because of a spelling mistake"
    assert priority() == 1
    play(labels("priority-class", "urgent"))
    assert priority() == 1000


def test_a_new_leader_that_misses_the_second_workload_of_an_elastic_job_makes_no_workload_beside_it() -> None:
    with Harness(kueue=True) as harness:
        workloads = harness.informers.kueue.workloads
        policy = {"minReplicas": 1}
        job = harness.submit(Worker=2, restart_policy="OnFailure", run_policy={"restartScope": "Job"})
        labels = {"metadata": {"labels": {QUEUE_LABEL: "research"}}, "spec": {"elasticPolicy": policy}}
        harness.api.edit(TFJOBS, "ns", "job", {**labels, "status": {"elastic": {"wanted": 2, "workersBefore": 2}}})
        harness.catch_up()
        uid = job["metadata"]["uid"]
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job", "uid": uid, "controller": True}
        meta = {"namespace": "ns", "ownerReferences": [owner], "labels": {JOB_UID_LABEL: uid}}
        mark = {POD_SETS_ANNOTATION: "0123", REPLACES_ANNOTATION: "ns/first"}
        harness.api.put(WORKLOADS, {"metadata": {"name": "second", "annotations": mark, **meta}})
        eventually(lambda: workloads.lister.find("ns/second"), within=10)
        # The state that a new leader sees if its first list of Workloads is older than the job's first Workload.
        indexer = workloads.informers[0].indexer
        indexer.delete("ns/second")
        with pytest.raises(StaleCache, match="Workload has changed"):
            harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "workloads") == 0
        harness.api.remove(WORKLOADS, "ns", "second")
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "workloads") == 1


def test_the_first_workload_of_an_elastic_job_costs_no_list() -> None:
    with Harness(kueue=True) as harness:
        harness.submit(Worker=2, restart_policy="OnFailure", run_policy={"restartScope": "Job"})
        labels = {"metadata": {"labels": {QUEUE_LABEL: "research"}}, "spec": {"elasticPolicy": {"minReplicas": 1}}}
        harness.api.edit(TFJOBS, "ns", "job", labels)
        harness.catch_up()
        harness.forget_calls()
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "workloads") == 1
        assert ("list", "workloads") not in harness.calls()


def test_a_request_for_quota_is_repeated_when_kueue_is_installed_again() -> None:
    with Harness(kueue=True) as harness:
        harness.submit(Worker=1)
        harness.api.edit(TFJOBS, "ns", "job", {"metadata": {"labels": {QUEUE_LABEL: "research"}}})
        harness.catch_up()
        gone = api_error(404, "NotFound", message="the server could not find the requested resource")
        harness.api.fail("create", "workloads", gone, times=1)
        harness.controller._process("ns/job")
        assert harness.queue.num_requeues("ns/job") == 1
        assert "can't request quota: the server could not find" in harness.condition("Admitted")["message"]
        harness.catch_up()
        harness.controller._process("ns/job")
        assert len(harness.api.objects(WORKLOADS)) == 1


def test_a_workload_that_the_cache_does_not_show_yet_does_not_count_as_refused() -> None:
    with Harness(kueue=True) as harness:
        harness.submit(Worker=1)
        harness.api.edit(TFJOBS, "ns", "job", {"metadata": {"labels": {QUEUE_LABEL: "research"}}})
        harness.catch_up()
        harness.controller.sync_tfjob("ns/job")
        (workload,) = harness.api.objects(WORKLOADS)
        key = f"ns/{workload['metadata']['name']}"
        workloads = harness.informers.kueue.workloads
        eventually(lambda: workloads.lister.find(key), within=10)
        # The state of a new leader whose first list of Workloads is older than this Workload.
        indexer, cached = workloads.informers[0].indexer, workloads.lister.find(key)
        harness.controller.forget_writes()
        indexer.delete(key)
        harness.catch_up()
        with pytest.raises(StaleCache, match="Workload"):
            harness.controller.sync_tfjob("ns/job")
        assert harness.condition("Admitted")["reason"] != "Refused"
        assert harness.api.count("get", "workloads") == 0, "the operator has no right to get a Workload"
        indexer.add(cached)
        harness.controller.sync_tfjob("ns/job")
        assert harness.condition("Admitted")["reason"] != "Refused"


def test_a_workload_of_another_author_with_the_name_of_the_jobs_workload_is_shown_as_the_reason() -> None:
    with Harness(kueue=True) as harness:
        harness.submit(Worker=1)
        harness.api.edit(TFJOBS, "ns", "job", {"metadata": {"labels": {QUEUE_LABEL: "research"}}})
        harness.catch_up()
        job = harness.informers.jobs.lister.find("ns/job")
        harness.api.put(WORKLOADS, {"metadata": {"name": workload_name(job), "namespace": "ns"}})
        harness.controller._process("ns/job")
        assert harness.condition("Admitted")["reason"] == "Refused"
        assert "already exists" in harness.condition("Admitted")["message"]
        assert harness.queue.num_requeues("ns/job") == 1
