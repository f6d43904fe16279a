from __future__ import annotations

import json

from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell


def test_jobs_are_suspended_and_resumed(tell: Tell, world: ServedWorld) -> None:
    world.submit("a")
    world.submit("b")
    assert tell("suspend", "a", "b").out == "tfjob.kubeflow.org/a suspended\ntfjob.kubeflow.org/b suspended\n"
    assert world.job("b")["spec"]["runPolicy"]["suspend"] is True
    assert json.loads(tell("resume", "b", "-o", "json").out)["spec"]["runPolicy"]["suspend"] is False
    assert len(json.loads(tell("resume", "a", "b", "-o", "json").out)["items"]) == 2


def test_a_job_that_has_ended_is_refused_but_not_the_others(tell: Tell, world: ServedWorld) -> None:
    world.submit("a")
    world.submit("b")
    world.becomes("Succeeded", "a")
    said = tell("suspend", "a", "b", "-o", "name")
    assert (said.code, said.out) == (1, "tfjob.kubeflow.org/b\n")
    assert "TFJob a" in said.err
    assert "has ended (Succeeded)" in said.err
