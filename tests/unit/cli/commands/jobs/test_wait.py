import json
import re
from typing import Any

import pytest

from tests.support.jobs import soon
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell
from tfoperator.cli.commands.jobs import wait


def test_it_is_for_the_success_by_default_or_for_the_job_to_be_gone(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    with soon(lambda: world.becomes("Succeeded")):
        result = tell("wait", "mnist")
    assert (result.code, result.out, result.err) == (0, "tfjob.kubeflow.org/mnist is Succeeded\n", "")
    with soon(lambda: world.sdk.delete_job("mnist")):
        result = tell("wait", "mnist", "--for=deleted", "-o", "json")
    assert json.loads(result.out) == {"name": "mnist", "namespace": world.namespace, "deleted": True}


@pytest.mark.parametrize("target", ["Running", "running", "condition=Running", "condition=running=True"])
def test_kubectls_way_to_say_it_works_too(tell: Tell, world: ServedWorld, target: str) -> None:
    world.submit(condition="Running")
    assert tell("wait", "mnist", f"--for={target}").out == "tfjob.kubeflow.org/mnist is Running\n"


def test_a_failure_on_the_way_is_exit_code_1_with_the_reason_unless_it_is_waited_for_too(
    tell: Tell, world: ServedWorld
) -> None:
    world.submit()
    world.becomes("Failed", message="worker 1 failed")
    result = tell("wait", "mnist", "--for=Succeeded")
    assert (result.code, result.out) == (1, "")
    assert "has failed (TFJobFailed): worker 1 failed" in result.err
    assert f"See why: tfoperator describe mnist -n {world.namespace}" in result.err
    assert (
        tell("wait", "mnist", "--for=Succeeded", "--for=Failed", code=0).out == "tfjob.kubeflow.org/mnist is Failed\n"
    )
    assert json.loads(tell("wait", "mnist", "--for=Failed", "-o", "json").out)["kind"] == "TFJob"


def test_time_that_is_up_is_exit_code_124_and_after_two_seconds_it_says_how_things_stand(
    tell: Tell, world: ServedWorld
) -> None:
    world.submit()
    result = tell("wait", "mnist", "--timeout", "0.2s", code=124)
    assert re.search(r"is not Succeeded after 0\.\d{1,2} s", result.err), "seconds as people write them"
    world.becomes("Running", message="1 of 2 replicas run")
    result = tell("wait", "mnist", "--timeout", "2.3s")
    assert result.err.splitlines()[0] == "mnist is Running, 0/2 ready: 1 of 2 replicas run"


@pytest.mark.parametrize(
    "arguments", [["--for=Done"], ["--for=deleted", "--for=Failed"], ["--timeout", "soon"], ["--timeout", "0"]]
)
def test_what_makes_no_sense_is_exit_code_2(tell: Tell, arguments: list[str]) -> None:
    assert tell("wait", "mnist", *arguments).code == 2


def test_a_job_that_is_deleted_at_its_end_is_in_the_answer(
    tell: Tell, world: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion is as after a short ttlSecondsAfterFinished. Another job may have the name since then."""
    world.submit()
    uid = world.job()["metadata"]["uid"]
    world.becomes("Succeeded")
    real = wait.await_conditions

    def await_conditions(*arguments: Any) -> Any:
        job = real(*arguments)
        world.sdk.delete_job("mnist")
        if arguments[3] == ["Succeeded", "Failed"]:
            world.submit()
        return job

    monkeypatch.setattr(wait, "await_conditions", await_conditions)
    for targets in ([], ["--for=Succeeded", "--for=Failed"]):
        answer = json.loads(tell("wait", "mnist", *targets, "-o", "json", code=0).out)
        assert (answer["kind"], answer["metadata"]["name"]) == ("TFJob", "mnist")
        assert answer["status"]["conditions"][-1]["type"] == "Succeeded"
        assert targets or answer["metadata"]["uid"] == uid
        if not targets:
            world.submit()
            world.becomes("Succeeded")
