"""A pipeline of four steps on a real Docker engine."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from tests.support.docker_engine import BUSYBOX_IMAGE, DockerEngine, engine, launches
from tests.support.eventually import eventually
from tests.support.threads import no_threads_left
from tfoperator.launcher import DockerPlatformConfig, ExecutorContainerSpec, LaunchContext
from tfoperator.pipeline import (
    BaseComponent,
    ChannelParameter,
    ExecutionParameter,
    Home,
    Pipeline,
    PipelineResult,
    PipelineRunner,
    make_spec_class,
    stop_run,
)

__all__ = ["engine"]

SCRIPT = """
    out=$1; word=$2; shift 2
    while test -e JOURNAL.wait; do sleep 0.05; done
    { echo $word; cat /dev/null "$@"; } > $out
    echo ${0##*/} >> JOURNAL
"""


class Bench:
    """Pipelines in a folder, which is the pipeline_root and has a journal of what came to its end."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.root.mkdir(mode=0o777)
        self.journal = self.root / "journal"
        self.configs = {"default": [DockerPlatformConfig(docker_server_url=url, network_mode="none")]}

    def pipeline(self, word: str = "a") -> Pipeline:
        script = SCRIPT.replace("JOURNAL", str(self.journal))

        def step(name: str, word: str, **inputs: Any) -> BaseComponent:
            words = [f"{{{{ inputs.{input_name}.uri }}}}" for input_name in inputs]
            spec = make_spec_class(
                inputs={input_name: ChannelParameter(type="Text") for input_name in inputs},
                outputs={"out": ChannelParameter(type="Text")},
                parameters={"word": ExecutionParameter(type=str)},
            )
            args = ["{{ outputs.out.uri }}", "{{ exec_properties.word }}", *words]
            container = ExecutorContainerSpec(BUSYBOX_IMAGE, ["sh", "-ec", script, name], args)
            kind = type(name, (BaseComponent,), {"SPEC_CLASS": spec, "EXECUTOR_SPEC": container})
            made: BaseComponent = kind(word=word, **inputs)
            return made

        data = step("Data", "data")
        first = step("First", "first", samples=data.outputs.out)
        second = step("Second", word, samples=data.outputs.out)
        last = step("Evaluate", "end", one=first.outputs.out, other=second.outputs.out)
        return Pipeline("four", str(self.root), [data, first, second, last], enable_cache=True)

    def run(self, word: str = "a", resume: str = "") -> PipelineResult:
        runner = PipelineRunner(platform_configs=self.configs, home=self.folder / "home")
        return runner.run(self.pipeline(word), resume=resume)

    def killed(self, when: Any) -> None:
        """Start a runner in a process of its own, and kill it as soon as `when()` is true."""
        pid = os.fork()
        if pid == 0:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - the process is about to be killed
            self.run()
            os._exit(1)
        eventually(when, within=60)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def ended(self) -> Counter[str]:
        return Counter(self.journal.read_text().split() if self.journal.exists() else ())


@pytest.fixture
def bench(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[Bench]:
    with no_threads_left():
        yield Bench(tmp_path, docker_engine.url)


def test_four_steps_run_once_then_are_used_again_and_then_only_what_has_changed_runs(
    bench: Bench, engine: DockerClient
) -> None:
    result = bench.run()
    assert bench.ended() == Counter(["Data", "First", "Second", "Evaluate"])
    text = Path(result.results["Evaluate"].outputs["out"][0].uri).read_text().split()
    assert text == ["end", "first", "data", "a", "data"]
    again = bench.run()
    assert {str(view.state) for view in again.steps.values()} == {"cached"}
    bench.run("b")
    assert bench.ended() == Counter({"Data": 1, "First": 1, "Second": 2, "Evaluate": 2})
    assert launches(engine) == []


def test_a_killed_runner_is_resumed_with_the_containers_that_it_has_left(bench: Bench, engine: DockerClient) -> None:
    wait = Path(f"{bench.journal}.wait")
    wait.touch()
    bench.killed(lambda: any(launch.status == "running" for launch in launches(engine)))
    (before,) = launches(engine)
    wait.unlink()
    assert bench.run(resume="latest").state == "succeeded"
    assert bench.ended() == Counter(["Data", "First", "Second", "Evaluate"])
    assert before.id not in [launch.id for launch in launches(engine)]


def test_what_a_killed_runner_has_left_is_stopped_and_the_next_run_is_whole(bench: Bench, engine: DockerClient) -> None:
    wait = Path(f"{bench.journal}.wait")
    wait.touch()
    bench.killed(lambda: any(launch.status == "running" for launch in launches(engine)))
    home = Home(bench.folder / "home")
    with home.store() as store:
        run = home.find(store, "latest")
        assert run.state == "interrupted"
        assert stop_run(home, store, run, LaunchContext()).state == "cancelled"
    assert launches(engine) == []
    assert bench.ended() == Counter()
    wait.unlink()
    assert bench.run().state == "succeeded"
    assert bench.ended() == Counter(["Data", "First", "Second", "Evaluate"])
