"""The remains of a deleted job: its quota is given back, whichever cache sees the deletion first."""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import msgspec
import pytest

from hack.enumeration.sieve.queues import ADMITTED, queued, shape
from hack.enumeration.world.operator import SteppedOperator
from hack.enumeration.world.server import DirectClient
from hack.enumeration.world.world import NAMESPACE, World
from hack.faults.plan.steps import Act, Step
from tests.support.fake_api import api_error
from tfoperator.api.kueue.queues import JOB_UID_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS, Resource

KINDS = ("TFJob", "Pod", "Workload")


class QueueWorld(World):
    """A cluster in virtual time, with a job in a queue of Kueue that has quota, and runs."""

    def __init__(self) -> None:
        super().__init__(queued("a job in a queue", shape(workers=2)))
        self.lose_events = False
        self.refuses = False
        """Whether the API server refuses all that the operator writes."""
        self.refused = 0
        """How many writes the API server has refused."""
        self.lists: list[str] = []
        """The resources that the operator has listed live, in order."""
        self._start(leads=True)
        for move in ADMITTED:
            self.run_for(self.pause_before(move))
            self.act(move) if isinstance(move, Step) else move(self)
        self.run_for(5)
        assert len(self.running()) == 2

    def client_of(self, who: list[SteppedOperator]) -> DirectClient:
        client = super().client_of(who)
        there = client.list

        def counted(resource: Resource, *arguments: Any) -> Any:
            self.lists.append(resource.plural)
            return there(resource, *arguments)

        client.list = counted  # type: ignore[method-assign,assignment]
        return client

    def _loses(self, kind: str, revision: int) -> bool:
        return self.lose_events or super()._loses(kind, revision)

    def _before_write(self, who: list[SteppedOperator]) -> None:
        super()._before_write(who)
        if self.refuses:
            self.refused += 1
            raise api_error(500)

    @property
    def writes(self) -> int:
        """How many writes the operator has made."""
        return self._writes

    def hold(self, *kinds: str) -> None:
        """Let no cache of these kinds show anything, until `show`."""
        for feed in self.feeds(*kinds):
            feed.held = True

    def show(self, *kinds: str) -> None:
        for feed in self.feeds(*kinds):
            feed.held = False

    def feeds(self, *kinds: str) -> Iterator[Any]:
        return (feed for operator in self._operators for feed in operator.feeds if feed.kind in kinds)

    def delete(self, what: str) -> None:
        """Somebody deletes the job, its Workload, or its pods, at once."""
        match what:
            case "Workload":
                for name in self.left():
                    self.client.delete(WORKLOADS, NAMESPACE, name)
            case "TFJob":
                self.client.delete(TFJOBS, NAMESPACE, "job-0", propagation_policy="Background")
            case "Pod":
                for pod in self.recorder.current("Pod"):
                    self.client.delete(PODS, NAMESPACE, pod["metadata"]["name"], grace_period_seconds=0)

    def running(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.recorder.current("Pod")]

    def left(self) -> list[str]:
        return [workload["metadata"]["name"] for workload in self.recorder.current("Workload")]


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


@pytest.mark.parametrize("order", list(permutations(KINDS)), ids="-".join)
def test_the_quota_of_a_deleted_job_is_given_back_in_whatever_order_the_caches_hear_of_it(
    world: QueueWorld, order: tuple[str, ...]
) -> None:
    world.hold(*KINDS)
    for what in ("Workload", "TFJob", "Pod"):
        world.delete(what)
    for kind in order:
        world.show(kind)
        world.run_for(0.5)
    world.run_for(1)
    assert world.left() == []


@pytest.mark.parametrize("order", list(permutations(KINDS)), ids="-".join)
def test_the_quota_of_a_deleted_job_is_given_back_in_whatever_order_things_happen(
    world: QueueWorld, order: tuple[str, ...]
) -> None:
    for kind in order:
        world.delete(kind)
        world.run_for(0.3)
    world.delete("Pod")
    world.run_for(1)
    assert world.left() == []


def test_what_was_refused_for_long_is_tried_again_as_soon_as_the_deletion_is_heard_of(world: QueueWorld) -> None:
    world.hold("TFJob")
    world.refuses = True
    for what in ("Workload", "TFJob", "Pod"):
        world.delete(what)
        world.run_for(2)  # in all less than the second check takes
    refused = world.refused
    while world.refused == refused:
        world.run_for(0.1)
    world.refuses = False
    world.run_for(0.1)
    assert world.left() != [], "the operator waits before it tries again"
    world.show("TFJob")
    world.run_for(1)
    assert world.left() == []


def test_the_second_check_finds_the_quota_of_a_deleted_job_whose_last_event_was_lost(world: QueueWorld) -> None:
    world.delete("TFJob")
    world.run_for(5)
    world.lose_events = True
    world.delete("Pod")
    world.lose_events = False
    world.run_for(10)
    assert world.left() != []
    world.run_for(400)
    assert world.left() == []


def test_quota_is_kept_until_the_last_pod_of_a_deleted_job_is_gone(world: QueueWorld) -> None:
    world.delete("TFJob")
    world.run_for(5)
    assert len(world.running()) == 2, "they end as slowly as they like"
    assert world.left() != []
    world.act(Step(0, Act.END_TERMINATING))
    world.run_for(5)
    assert len(world.running()) == 1
    assert world.left() != [], "one pod takes room"
    world.act(Step(0, Act.END_TERMINATING))
    world.run_for(1)
    assert world.left() == []


def test_pods_that_outlive_their_job_keep_its_quota_until_they_end(world: QueueWorld) -> None:
    world.client.delete(TFJOBS, NAMESPACE, "job-0", propagation_policy="Orphan")
    world.run_for(30)
    assert world.recorder.current("TFJob") == []
    assert (len(world.running()), len(world.left())) == (2, 1)
    for phase in ("Succeeded", "Failed"):
        assert world.left() != [], "one pod takes room"
        [pod, *_] = [body for body in world.recorder.current("Pod") if body["status"]["phase"] == "Running"]
        change = {"status": {"phase": phase}}
        world.client.patch(PODS, NAMESPACE, pod["metadata"]["name"], change, bytes, subresource="status")
        world.run_for(1)
    assert world.left() == []


def test_a_job_whose_workload_has_lost_its_owner_gets_another(world: QueueWorld) -> None:
    [name] = world.left()
    change = {"metadata": {"ownerReferences": None}}
    uid = msgspec.json.decode(world.client.patch(WORKLOADS, NAMESPACE, name, change, bytes))["metadata"]["uid"]
    for _ in range(2):
        world.run_for(3)
        assert [workload["metadata"]["uid"] for workload in world.recorder.current("Workload")] == [uid], (
            "a pod takes room"
        )
        world.act(Step(0, Act.END_TERMINATING))
    world.run_for(3)
    assert [workload["metadata"]["uid"] == uid for workload in world.recorder.current("Workload")] == [False]
    assert len(world.running()) == 2


def test_a_look_at_what_is_left_costs_no_request_before_the_last_pod_is_gone(world: QueueWorld) -> None:
    world.delete("TFJob")
    world.run_for(5)
    world.lists.clear()
    writes = world.writes
    world.run_for(600)
    assert world.writes == writes
    assert world.left() != []
    assert world.lists.count("pods") <= 8, "the second check, ever less often"
    world.act(Step(0, Act.END_TERMINATING))
    world.lists.clear()
    world.act(Step(0, Act.END_TERMINATING))
    world.run_for(1)
    assert (world.left(), world.lists, world.writes) == ([], ["pods"], writes + 1)


@pytest.mark.parametrize("last", KINDS)
def test_nothing_is_remembered_of_a_deleted_job(world: QueueWorld, last: str) -> None:
    [uid] = [job["metadata"]["uid"] for job in world.recorder.current("TFJob")]
    [operator] = world.processes
    assert operator.remembers(uid)
    world.hold(last)
    for what in ("TFJob", "Pod"):
        world.delete(what)
        world.run_for(2)
    world.show(last)
    world.run_for(20)
    assert operator.remembers(uid) == []


def test_a_job_that_is_made_again_does_not_wait_for_the_workload_of_the_one_before(world: QueueWorld) -> None:
    for what in ("TFJob", "Pod"):
        world.delete(what)
        world.run_for(2)
    world.hold("Workload")
    for _ in range(2):
        world.act(Step(0, Act.CREATE))
        world.run_for(1)
        [uid] = [job["metadata"]["uid"] for job in world.recorder.current("TFJob")]
        world.delete("TFJob")
    world.act(Step(0, Act.CREATE))
    world.show("Workload")
    world.run_for(3)
    [again] = [job["metadata"]["uid"] for job in world.recorder.current("TFJob")]
    assert again != uid
    assert [workload["metadata"]["labels"][JOB_UID_LABEL] for workload in world.recorder.current("Workload")] == [again]
