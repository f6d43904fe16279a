"""A step of a pipeline whose pod is taken away: the next step and the cache don't use the remains of its output."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import ApiServer
from tests.contract.launches import player
from tests.contract.nodes import Node
from tests.contract.support import PODS, Space, nothing_left
from tests.support.eventually import eventually
from tests.support.launching import QUICK, PodPlayer
from tests.support.taken_steps import SHARDS, WRITE_SHARDS
from tests.support.threads import InThread
from tfoperator.launcher import ExecutorContainerSpec, KubernetesPodPlatformConfig, LaunchContext, RetryPolicy
from tfoperator.pipeline import (
    ON_KUBERNETES,
    BaseComponent,
    ChannelParameter,
    ExecutionParameter,
    Pipeline,
    PipelineFailed,
    PipelineResult,
    PipelineRunner,
    make_spec_class,
)

__all__ = ["player"]

IMAGE = "example.invalid/x@sha256:" + "a" * 64
COUNT = "ls {{ inputs.shards.uri }} | wc -l > {{ outputs.model.uri }}"


def component(name: str, text: str, *, inputs: tuple[str, ...] = (), output: str, **given: Any) -> BaseComponent:
    spec = make_spec_class(
        inputs={input_name: ChannelParameter(type="Files") for input_name in inputs},
        outputs={output: ChannelParameter(type="Files")},
        parameters={parameter: ExecutionParameter(type=str) for parameter in given if parameter not in inputs},
    )
    container = ExecutorContainerSpec(IMAGE, ["sh", "-c", text])
    made: BaseComponent = type(name, (BaseComponent,), {"SPEC_CLASS": spec, "EXECUTOR_SPEC": container})(**given)
    return made


class Bench:
    """Runs of a pipeline: a step that writes twenty files, which a second one counts."""

    def __init__(self, space: Space, folder: Path) -> None:
        self._space = space
        self._home = folder / "home"
        self._root = folder / "root"
        self.mark = folder / "mark"

    def run(self, attempts: int) -> PipelineResult:
        shards = component("Shards", WRITE_SHARDS, output="shards", mark=str(self.mark))
        count = component("Count", COUNT, inputs=("shards",), output="model", shards=shards.outputs.shards)
        retry = RetryPolicy(attempts=attempts, initial=QUICK.initial, maximum=QUICK.maximum)
        context = LaunchContext(namespace=self._space.namespace, kube=self._space.new_client, retry=retry)
        configs = {"default": [KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 60})]}
        runner = PipelineRunner(ON_KUBERNETES, configs, home=self._home, context=context)
        return runner.run(Pipeline("counted", str(self._root), [shards, count], enable_cache=True))


@pytest.fixture
def bench(api_server: ApiServer, space: Space, tmp_path: Path) -> Iterator[Bench]:
    with nothing_left(), Node(api_server, space, tmp_path):
        yield Bench(space, tmp_path)


def states(result: PipelineResult) -> dict[str, str]:
    return {name: str(view.state) for name, view in result.steps.items()}


def counted(result: PipelineResult) -> int:
    return int(Path(result.results["Count"].outputs["model"][0].uri).read_text())


def test_the_next_step_sees_what_the_second_try_wrote(bench: Bench, space: Space, player: PodPlayer) -> None:
    running = InThread(lambda: bench.run(attempts=3))
    eventually(bench.mark.exists, what="five are written")
    space.delete(PODS, player.the_pod(1))
    result = running.result(60)
    assert states(result) == {"Shards": "succeeded", "Count": "succeeded"}
    assert (counted(result), result.results["Shards"].attempts) == (SHARDS, 2)


def test_the_cache_has_nothing_of_a_step_that_was_taken_away(bench: Bench, space: Space, player: PodPlayer) -> None:
    running = InThread(lambda: bench.run(attempts=1))
    eventually(bench.mark.exists, what="five are written")
    space.delete(PODS, player.the_pod(1))
    with pytest.raises(PipelineFailed, match="was deleted before its container had succeeded") as failed:
        running.result(60)
    assert states(failed.value.result)["Shards"] == "retryable"
    second = bench.run(attempts=1)
    assert states(second) == {"Shards": "succeeded", "Count": "succeeded"}
    assert counted(second) == SHARDS
    assert states(bench.run(attempts=1)) == {"Shards": "cached", "Count": "cached"}
