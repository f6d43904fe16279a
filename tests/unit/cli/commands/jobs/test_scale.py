from __future__ import annotations

import pytest

from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell


def test_workers_and_other_types_are_scaled(tell: Tell, world: ServedWorld) -> None:
    world.submit(PS=1, Worker=2)
    said = tell("scale", "mnist", "--workers", "4", "--replicas", "ps=2")
    assert (said.code, said.out, said.err) == (0, "tfjob.kubeflow.org/mnist scaled\n", "")
    specs = world.job()["spec"]["tfReplicaSpecs"]
    assert (specs["Worker"]["replicas"], specs["PS"]["replicas"]) == (4, 2)


def test_running_replicas_that_will_not_notice_are_warned_about(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    world.status({"startTime": "2026-01-01T00:00:00Z"})
    assert "lacks enableDynamicWorker" in tell("scale", "mnist", "--workers", "3").err


def test_a_type_that_the_job_lacks_is_refused(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    said = tell("scale", "mnist", "--replicas", "PS=1", code=1)
    assert "has no PS replicas; it has Worker" in said.err


@pytest.mark.parametrize("arguments", [[], ["--workers", "-1"], ["--replicas", "PS"], ["--replicas", "Boss=1"]])
def test_what_makes_no_sense_is_exit_code_2(tell: Tell, arguments: list[str]) -> None:
    assert tell("scale", "mnist", *arguments).code == 2
