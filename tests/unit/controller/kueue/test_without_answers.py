"""A queue never stops a job that runs: its ends, restarts and deadlines while Kueue does not answer."""

from collections.abc import Callable
from typing import Any

from hack.enumeration.sieve.happenings import labels
from hack.enumeration.sieve.queues import ADMITTED, queued, shape
from hack.enumeration.world.operator import SteppedOperator
from hack.enumeration.world.server import DirectClient
from hack.enumeration.world.world import NAMESPACE, World
from hack.faults.oracle.history import conditions_in, true_conditions
from hack.faults.plan.steps import Act, JobShape, Step
from tests.support.cluster import decode
from tests.support.fake_api import api_error
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller.kueue.objects import IN_USE
from tfoperator.kube.protocol.resources import PODS, Resource

SOON = 1.5
"""Seconds in which the operator does all that it does without Kueue."""


class AwayWorld(World):
    """A job in a queue, whose webhook answers or does not."""

    def __init__(self, job: JobShape) -> None:
        super().__init__(queued("a job in a queue", job))
        self.away: set[str] = set()
        """The verbs that the API server refuses for Workloads, since Kueue's webhook does not answer."""
        self.refusal = api_error(500, message="failed calling webhook: connection refused")
        self.asked: list[tuple[float, str]] = []
        """When something was asked for of Workloads, and by which verb."""
        self._start(leads=True)

    def client_of(self, who: list[SteppedOperator]) -> DirectClient:
        client: Any = super().client_of(who)
        for verb in ("create", "patch", "delete", "list"):
            setattr(client, verb, self._checked(verb, getattr(client, verb)))
        return client

    def _checked(self, verb: str, there: Callable[..., Any]) -> Callable[..., Any]:
        def asked(resource: Resource, *arguments: Any, **options: Any) -> Any:
            if resource is WORKLOADS:
                self.asked.append((self.operator_clock.monotonic(), verb))
                if verb in self.away:
                    raise self.refusal
            return there(resource, *arguments, **options)

        return asked

    def go_away(self) -> None:
        self.away = {"create", "patch", "delete"}
        self.asked.clear()

    def play_all(self, *moves: Any) -> None:
        for move in moves:
            self.run_for(self.pause_before(move))
            self.act(move) if isinstance(move, Step) else move(self)
        self.run_for(SOON)

    def job(self) -> dict[str, Any]:
        return dict(self.client.get(TFJOBS, NAMESPACE, "job-0", decode))

    def condition(self, kind: str) -> dict[str, Any]:
        return next((each for each in conditions_in(self.job().get("status", {})) if each["type"] == kind), {})

    def workload_conditions(self) -> set[str]:
        """The conditions that are true of the job's Workload."""
        workloads = self.client.list(WORKLOADS, NAMESPACE, decode).items
        return {kind for workload in workloads for kind in true_conditions(workload["status"])}

    def pods(self) -> dict[str, str]:
        """UIDs by name."""
        pods = self.client.list(PODS, NAMESPACE, decode).items
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def running(job: JobShape) -> AwayWorld:
    """Such a world whose job runs, and which Kueue has just left."""
    world = AwayWorld(job)
    world.play_all(*ADMITTED)
    assert len(world.pods()) == sum(job.replicas.values())
    world.go_away()
    return world


def test_an_end_is_recorded_without_kueue_and_its_quota_is_given_back_later() -> None:
    world = running(shape())
    world.play_all(Step(0, Act.SUCCEED))
    assert world.condition("Succeeded")["status"] == "True"
    world.run_for(60)
    assert len(world.asked) < 30, "it is asked ever more seldom"
    world.away.clear()
    world.run_for(6)
    assert world.workload_conditions() >= {"Finished"}


def test_a_failed_replica_starts_again_without_kueue() -> None:
    world = running(shape("ExitCode", workers=2))
    before = world.pods()
    world.play_all(Step(0, Act.FAIL, value=137))
    world.run_for(15)
    after = world.pods()
    assert after.keys() == before.keys()
    assert len(after.items() - before.items()) == 1


def test_a_deadline_is_kept_without_kueue() -> None:
    world = running(shape(workers=2, run_policy={"activeDeadlineSeconds": 25}))
    world.run_for(25)
    assert world.condition("Failed")["status"] == "True"


def test_a_job_that_waits_says_that_kueue_does_not_answer_and_gets_its_workload_soon_after() -> None:
    world = AwayWorld(shape(workers=2))
    world.go_away()
    world.play_all(Step(0, Act.CREATE))
    world.run_for(60)
    assert world.pods() == {}
    assert (world.condition("Admitted")["reason"], world.condition("Admitted")["status"]) == ("NoAnswer", "False")
    world.away.clear()
    world.play_all(*ADMITTED[:2])
    world.run_for(60)
    assert len(world.pods()) == 2


def test_a_job_that_leaves_its_queue_without_kueue_starts_and_does_not_keep_quota_that_it_gets_later() -> None:
    world = AwayWorld(shape(workers=2))
    world.play_all(ADMITTED[0], Step(0, Act.CREATE))
    world.go_away()
    world.play_all(labels("queue-name", None))
    assert len(world.pods()) == 2
    world.play_all(*ADMITTED[1:2])
    assert world.workload_conditions() >= {"Admitted"}, "Kueue is back before the operator notices"
    world.away.clear()
    world.run_for(20)
    assert not world.client.list(WORKLOADS, NAMESPACE, decode).items
    assert len(world.pods()) == 2


def test_a_job_that_leaves_its_queue_while_it_runs_keeps_the_quota_of_its_pods() -> None:
    world = AwayWorld(shape(workers=2))
    world.play_all(*ADMITTED, labels("queue-name", None))
    world.run_for(20)
    assert world.workload_conditions() >= {"Admitted"}
    assert len(world.pods()) == 2


def test_a_job_whose_workload_is_refused_by_a_rule_says_why() -> None:
    world = AwayWorld(shape(workers=2))
    world.go_away()
    world.refusal = api_error(403, message="admission webhook denied the request: no cohort for you")
    world.play_all(Step(0, Act.CREATE))
    admitted = world.condition("Admitted")
    assert (admitted["reason"], admitted["status"]) == ("Refused", "False")
    assert (
        "the operator can't request quota: admission webhook denied the request: no cohort for you"
        in admitted["message"]
    )


def test_a_new_leader_that_can_not_read_the_workload_takes_no_pod_and_makes_none() -> None:
    world = running(shape("ExitCode", workers=2))
    before = world.pods()
    world.away.add("list")
    world.kill()
    world.run_for(60)
    world.play_all(Step(0, Act.FAIL, value=137))
    world.run_for(30)
    assert len(world.pods().items() & before.items()) >= 1
    assert world.pods().items() <= before.items()
    assert world.condition("Admitted")["status"] == "True"
    world.away.clear()
    world.run_for(60)
    assert len(world.pods()) == 2
    assert len(world.pods().items() & before.items()) == 1


def test_a_job_that_is_resumed_before_its_workload_is_deleted_gets_the_finalizer_again() -> None:
    world = AwayWorld(shape(workers=2))
    world.play_all(ADMITTED[0], Step(0, Act.CREATE))
    world.away = {"delete"}
    world.play_all(Step(0, Act.SUSPEND))
    world.play_all(Step(0, Act.RESUME))
    world.away.clear()
    world.play_all(ADMITTED[1])
    world.run_for(10)
    assert len(world.pods()) == 2
    (workload,) = world.client.list(WORKLOADS, NAMESPACE, decode).items
    assert workload["metadata"]["finalizers"] == [IN_USE]
