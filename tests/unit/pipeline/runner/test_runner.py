import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.pipeline.samples import DONE, ON_THE_WAY, Seen, add, diamond, fails, home_of, runner, states
from tfoperator.launcher import (
    ComponentError,
    DockerPlatformConfig,
    ExecutorContainerSpec,
    InProcessComponentLauncher,
    LauncherError,
    PermanentFailure,
    RetryableFailure,
)
from tfoperator.pipeline import ON_DOCKER, Channel, Home, Pipeline, PipelineCancelled, PipelineFailed, StepState


def until_interrupted(*_: Any) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.01)


def one_step(folder: Path) -> Pipeline:
    return Pipeline("one", str(folder / "data"), [add("alone", 1)])


def test_a_run_uses_again_what_is_there_and_does_not_depend_on_a_change(tmp_path: Path) -> None:
    first = runner(tmp_path).run(diamond(tmp_path))
    assert (DONE[0], sorted(DONE[1:3]), DONE[3]) == ("begin", ["left", "right"], "end")
    (total,) = first.results["end"].outputs["total"]
    assert (total.properties, total.uri) == ({"total": 112}, f"{tmp_path}/data/end/total/{first.run_id}")
    DONE.clear()
    second = runner(tmp_path).run(diamond(tmp_path))
    assert (DONE, set(states(second).values())) == ([], {"cached"})
    assert second.results["end"].outputs == first.results["end"].outputs
    third = runner(tmp_path).run(diamond(tmp_path, left=20))
    assert sorted(DONE) == ["end", "left"]
    assert third.results["end"].outputs["total"][0].properties == {"total": 122}
    DONE.clear()
    uncached = runner(tmp_path).run(diamond(tmp_path, cache=False))
    assert len(DONE) == 4
    DONE.clear()
    for result in (first, uncached):
        Path(result.results["left"].outputs["total"][0].uri).unlink()
    runner(tmp_path).run(diamond(tmp_path))
    assert sorted(DONE) == ["end", "left"], "what was removed is made again"


def test_data_from_outside_is_known_by_its_version(tmp_path: Path) -> None:
    file = tmp_path / "number"

    def pipeline() -> Pipeline:
        step = add("sum", 1, left=Channel("File", uri=str(file)))
        return Pipeline("outside", str(tmp_path / "data"), [step], enable_cache=True)

    file.write_text("5")
    runner(tmp_path).run(pipeline())
    runner(tmp_path).run(pipeline())
    assert DONE == ["sum"]
    file.write_text("600")
    result = runner(tmp_path).run(pipeline())
    assert DONE == ["sum", "sum"]
    assert result.results["sum"].outputs["total"][0].properties == {"total": 601}


def test_a_failure_is_tried_again_by_the_next_run_and_what_does_not_read_from_it_goes_on(tmp_path: Path) -> None:
    ON_THE_WAY["left"] = fails(PermanentFailure("no"))
    with pytest.raises(PipelineFailed) as caught:
        runner(tmp_path).run(diamond(tmp_path))
    assert not caught.value.retryable
    assert states(caught.value.result) == {
        "begin": "succeeded", "left": "failed", "right": "succeeded", "end": "skipped"
    }  # fmt: skip
    ON_THE_WAY.clear()
    DONE.clear()
    result = runner(tmp_path).run(diamond(tmp_path))
    assert DONE == ["left", "end"]
    assert states(result)["right"] == "cached"


def test_a_failure_that_may_pass_is_resumed_and_one_that_does_not_is_not(tmp_path: Path) -> None:
    ON_THE_WAY["left"] = fails(RetryableFailure("busy"))
    with pytest.raises(PipelineFailed) as caught:
        runner(tmp_path).run(diamond(tmp_path))
    assert caught.value.retryable
    del ON_THE_WAY["left"]
    result = runner(tmp_path).run(diamond(tmp_path), resume=caught.value.result.run_id)
    assert (sorted(DONE), states(result)["left"]) == (["begin", "end", "left", "right"], "succeeded")
    assert result.run_id == caught.value.result.run_id
    ON_THE_WAY["begin"] = fails(PermanentFailure("no"))
    for resume in ("", "latest"):
        with pytest.raises(PipelineFailed, match="failed"):
            runner(tmp_path).run(diamond(tmp_path, begin=2), resume=resume)


@pytest.mark.parametrize(("code", "state"), [(3, "failed"), (0, "succeeded")])
def test_a_class_that_exits_ends_its_step_and_not_the_run(tmp_path: Path, code: int, state: str) -> None:
    ON_THE_WAY["alone"] = fails(SystemExit(code))
    try:
        result = InThread(lambda: runner(tmp_path).run(one_step(tmp_path))).result(20)
    except PipelineFailed as error:
        result = error.result
    assert states(result) == {"alone": state}


def test_a_step_whose_launch_ends_in_no_known_way_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InProcessComponentLauncher, "launch", fails(GeneratorExit("unheard of")))
    with pytest.raises(PipelineFailed, match="GeneratorExit: unheard of"):
        InThread(lambda: runner(tmp_path).run(one_step(tmp_path))).result(20)


def test_a_run_is_recorded_without_what_is_not_given_and_refused_with_what_is_unknown(tmp_path: Path) -> None:
    runner(tmp_path).run(one_step(tmp_path), **dict.fromkeys(("source", "parameters", "place")))  # type: ignore[arg-type]
    with home_of(tmp_path).store() as store:
        assert [(run.source, run.parameters, run.place) for run in store.runs()] == [("", {}, {})]
    with pytest.raises(TypeError, match="resum"):
        runner(tmp_path).run(one_step(tmp_path), resume="latest", resum="latest")  # type: ignore[call-arg]


def test_only_a_run_of_the_same_pipeline_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match="no run"):
        runner(tmp_path).run(diamond(tmp_path), resume="latest")
    runner(tmp_path).run(diamond(tmp_path))
    with pytest.raises(ComponentError, match="other parameters"):
        runner(tmp_path).run(diamond(tmp_path, begin=2), resume="latest")
    with pytest.raises(ComponentError, match="no run 2026"):
        runner(tmp_path).run(diamond(tmp_path), resume="2026")


def test_steps_that_do_not_wait_for_each_other_run_at_once_but_no_more_than_allowed(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=60)
    ON_THE_WAY["left"] = ON_THE_WAY["right"] = lambda *_: together.wait() and None
    runner(tmp_path, parallel=2).run(diamond(tmp_path))
    running, most = [0], [0]

    def count(*_: Any) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.02)
        running[0] -= 1

    ON_THE_WAY.update({f"s{number}": count for number in range(6)})
    wide = Pipeline("wide", str(tmp_path / "wide"), [add(f"s{number}") for number in range(6)])
    runner(tmp_path, parallel=1).run(wide)
    assert most == [1]


def test_cancelling_interrupts_classes_and_begins_nothing_more(tmp_path: Path) -> None:
    ON_THE_WAY["left"] = until_interrupted
    seen = Seen()
    pipeline_runner = runner(tmp_path, listener=seen)
    call = InThread(lambda: pipeline_runner.run(diamond(tmp_path)))
    eventually(lambda: any(v.name == "left" and v.state == StepState.RUNNING for v in seen.views), within=60)
    eventually(lambda: "right" in DONE, within=60)
    pipeline_runner.cancel()
    with pytest.raises(PipelineCancelled):
        call.result(60)
    step_states = {view.name: str(view.state) for view in seen.views}
    assert (step_states["left"], step_states["end"]) == ("cancelled", "skipped")
    ON_THE_WAY.clear()
    result = runner(tmp_path).run(diamond(tmp_path), resume="latest")
    assert sorted(DONE) == ["begin", "end", "left", "right"]
    assert result.state == "succeeded"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_a_run_of_a_program_that_does_not_handle_it_itself(tmp_path: Path, number: int) -> None:
    ON_THE_WAY["begin"] = lambda *_: (os.kill(os.getpid(), number), until_interrupted())[1]
    before = signal.getsignal(number)
    with pytest.raises(PipelineCancelled):
        runner(tmp_path).run(diamond(tmp_path))
    assert signal.getsignal(number) is before


def test_what_is_wrong_with_any_step_or_the_root_is_found_before_the_first_begins(tmp_path: Path) -> None:
    bad = add("bad", left=None).with_id("bad")
    bad.executor_spec = ExecutorContainerSpec("x:1", ["{{ inputs.nothing.uri }}"])
    pipeline = Pipeline("p", str(tmp_path / "data"), [add("good"), bad])
    with pytest.raises(ComponentError, match="nothing"):
        runner(tmp_path).run(pipeline)
    with pytest.raises(ComponentError, match="stranger"):
        runner(tmp_path, platform_configs={"stranger": [DockerPlatformConfig()]}).run(diamond(tmp_path))
    (tmp_path / "data").write_text("a file")
    with pytest.raises(LauncherError, match="the outputs can't be written there"):
        runner(tmp_path).run(diamond(tmp_path))
    assert DONE == []


def test_what_steps_of_this_process_print_is_in_their_logs(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def talks(_: Any, __: Any, exec_properties: Any) -> None:
        print(exec_properties["name"], end="")
        both.wait(60)
        print(" is through")

    ON_THE_WAY["left"] = ON_THE_WAY["right"] = talks
    result = runner(tmp_path).run(diamond(tmp_path))
    home = Home(tmp_path / "home")
    for step in ("left", "right"):
        assert list(home.logs.lines(result.run_id, step)) == [f"{step} is through"]


@pytest.mark.parametrize("cache", [False, True])
def test_where_no_docker_engine_is_nothing_was_created_and_the_run_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: bool
) -> None:
    """One word for one event: the step may be tried again, and it has left nothing that could still run."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    step = add("alone", 1).with_id("alone")
    step.executor_spec = ExecutorContainerSpec("busybox:1.36", ["true"])
    pipeline = Pipeline("one", str(tmp_path / "data"), [step], enable_cache=cache)
    for resume in ("", "latest"):
        with pytest.raises(PipelineFailed, match="has failed: alone: no Docker engine answers") as caught:
            runner(tmp_path, launchers=ON_DOCKER).run(pipeline, resume=resume)
        assert (caught.value.retryable, caught.value.result.state) == (True, "failed")
        assert "may still run" not in str(caught.value)
    seen = Seen()
    with pytest.raises(PipelineFailed):
        runner(tmp_path, launchers=ON_DOCKER, listener=seen).run(pipeline)
    assert not [message for message in seen.messages if "lost its runner" in message]
    with home_of(tmp_path).store() as store:
        assert [run.state for run in store.runs()] == ["failed", "failed"]
