import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import tfjob
from tests.support.controller_harness import namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi, api_error
from tests.unit.logs.archive.samples import Source
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import EVENTS, PODS
from tfoperator.operator import Operator, Options, Reach, ended_logs

DONE = {"phase": "Succeeded", "containerStatuses": [{"name": "tensorflow", "state": {"terminated": {"exitCode": 0}}}]}


class World:
    """A fake API server with a source of logs, and operators that keep them."""

    def __init__(self, archive: Path) -> None:
        self.api = FakeApi()
        self.source = Source()
        self.archive = archive
        self.operators: list[Operator] = []

    def start(self, **options: Any) -> Operator:
        chosen = Options(archive_dir=str(self.archive), **options)
        operator = Operator(self.api, chosen, reach=Reach(log_source=self.source))
        self.operators.append(operator)
        operator.start()
        return operator

    def job(self, name: str, workers: int, **spec: Any) -> list[str]:
        """Make a job with its pods; return the pods' names, last the name of worker 0, whose end is the job's."""
        self.api.put(TFJOBS, namespaced(tfjob(name, Worker=workers, **spec)))
        names = [f"{name}-worker-{number}" for number in range(workers)]
        eventually(lambda: set(names) <= set(self.api.names(PODS)), what="pods")
        return names[::-1]

    def job_before_start(self, name: str, workers: int) -> list[str]:
        """The same, by an operator that keeps nothing and is gone afterwards."""
        with_pods = Operator(self.api, Options())
        with_pods.start()
        names = self.job(name, workers)
        assert with_pods.stop(60)
        return names

    def end(self, *pods: str) -> None:
        for pod in pods:
            self.api.edit(PODS, "ns", pod, {"status": DONE})

    def wait_ended(self) -> None:
        """Wait until every job has ended."""
        eventually(
            lambda: all(job.get("status", {}).get("completionTime") for job in self.api.objects(TFJOBS)), what="the end"
        )

    def kept(self) -> set[str]:
        return {path.parent.name.rpartition(".")[0] for path in self.archive.glob("*/*/*/pod.json")}

    def wait_kept(self, *pods: str) -> None:
        eventually(lambda: self.kept() == set(pods), what=f"logs of {pods}")

    def asked(self) -> list[str]:
        return [name for name, _, _ in self.source.asked]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "archive")
    yield made
    for operator in made.operators:
        operator.stop(10)


def test_each_log_is_kept_when_its_container_ends_and_once(world: World) -> None:
    world.start()
    pods = world.job("job", 3)
    world.end(*pods[:2])
    world.wait_kept(*pods[:2])
    world.end(pods[2])
    world.wait_kept(*pods)
    assert sorted(world.asked()) == sorted(pods)


def test_without_an_archive_no_log_is_asked_for(world: World) -> None:
    operator = Operator(world.api, Options(), reach=Reach(log_source=world.source))
    world.operators.append(operator)
    operator.start()
    world.end(*world.job("job", 1))
    world.wait_ended()
    assert world.source.asked == []


def test_a_standby_keeps_nothing(world: World) -> None:
    lease = {"leader_elect": True, "leader_elect_lease_duration": 1.5, "leader_elect_renew_deadline": 1.0}
    first = world.start(**lease, leader_elect_retry_period=0.1)
    eventually(lambda: first.is_leader)
    second = world.start(**lease, leader_elect_retry_period=0.1)
    eventually(lambda: second.is_ready)
    pods = world.job("job", 4)
    world.end(*pods)
    world.wait_kept(*pods)
    assert sorted(world.asked()) == sorted(pods)
    assert first.stop(60)
    eventually(lambda: second.is_leader)
    world.wait_kept(*pods)
    assert sorted(world.asked()) == sorted(pods)


def test_a_job_that_has_gone_is_known_by_its_pods_but_not_one_of_another_controller(world: World) -> None:
    gone, others = world.job_before_start("gone", 1), world.job_before_start("other", 1)
    world.api.edit(TFJOBS, "ns", "other", {"spec": {"runPolicy": {"managedBy": "example.invalid/other"}}})
    world.api.remove(TFJOBS, "ns", "gone")
    world.end(*gone, *others)
    world.start()
    world.wait_kept(*gone)
    assert [path.name.partition("-")[0] for path in world.archive.glob("ns/*")] == ["gone"]
    assert world.asked() == gone


def test_more_pods_than_there_is_room_for_are_kept_in_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_logs, "_MAX_WAITING", 2)
    world.start()
    pods = world.job("wide", 30)
    world.source.gate = threading.Event()
    world.end(*pods)
    world.wait_ended()
    assert len(world.source.asked) <= 4
    world.source.gate.set()
    world.wait_kept(*pods)
    assert sorted(world.asked()) == sorted(pods)


def test_a_log_that_can_not_be_had_is_tried_again_and_then_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_logs, "_RETRY_BASE", 0.01)
    world.start()
    pods = world.job("job", 1)
    world.source.errors[pods[0], "tensorflow", False] = api_error(500, message="no kubelet")
    world.end(*pods)

    def messages() -> list[str]:
        return [event["message"] for event in world.api.objects(EVENTS) if event["reason"] == "LogsNotArchived"]

    eventually(lambda: len(messages()) == 1, what="the event")
    assert "no kubelet" in messages()[0]
    assert world.asked() == pods * 5
