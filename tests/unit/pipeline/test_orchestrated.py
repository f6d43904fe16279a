"""Runs whose order something else decides: each step by a runner of its own, as Argo and Airflow do it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.support.threads import InThread
from tests.unit.pipeline.samples import DONE, ON_THE_WAY, diamond, fails, home_of, runner
from tfoperator.launcher import (
    ComponentError,
    InProcessComponentLauncher,
    LaunchContext,
    PermanentFailure,
    RetryableFailure,
)
from tfoperator.pipeline import CannotStop, NoSuchRun, RunInProgress, RunRecord, StepView, finish_run, stop_run
from tfoperator.pipeline.runner.leftovers import old_runs

pytestmark = pytest.mark.usefixtures("place")

ORDER = ("begin", "left", "right", "end")


def launch(folder: Path, step: str, run: str = "r-1", **more: Any) -> StepView:
    """Do the work of a launcher's pod, in this process."""
    return runner(folder).run_step(diamond(folder, **more), step, run_id=run, orchestrator="argo")


def ended(folder: Path, run: str = "r-1") -> RunRecord:
    """Do the work of the last pod."""
    home = home_of(folder)
    with home.store() as store:
        return finish_run(home, store, home.find(store, run), LaunchContext())


def test_steps_that_are_launched_one_by_one_make_what_a_runner_makes(tmp_path: Path) -> None:
    assert [str(launch(tmp_path, step).state) for step in ORDER] == ["succeeded"] * 4
    assert ended(tmp_path).state == "succeeded"
    assert (tmp_path / "data/end/total/r-1").read_text() == "112"
    with home_of(tmp_path).store() as store:
        executions = store.executions("r-1")
        assert executions["end"].inputs["left"][0].properties == {"total": 11}
    whole = runner(tmp_path).run(diamond(tmp_path))
    assert [str(view.state) for view in whole.steps.values()] == ["cached"] * 4  # it is the same to the store
    assert ended(tmp_path).state == "succeeded"


def test_what_the_programs_own_handler_of_a_signal_raises_ends_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InProcessComponentLauncher, "launch", fails(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        launch(tmp_path, "begin")


def test_what_is_no_exception_ends_a_step_of_another_thread_as_one_does_unless_it_is_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = (SystemExit(3), GeneratorExit(), KeyboardInterrupt())

    def ends(run: str) -> str:
        return str(InThread(lambda: launch(tmp_path, "begin", run)).result(60).state)

    for number, error in enumerate(errors):
        ON_THE_WAY["begin"] = fails(error)
        assert ends(f"class-{number}") == ("cancelled" if number == 2 else "failed")
    for number, error in enumerate(errors):
        monkeypatch.setattr(InProcessComponentLauncher, "launch", fails(error))
        assert ends(f"launcher-{number}") == ("cancelled" if number == 2 else "retryable")


def test_steps_side_by_side_begin_one_run(tmp_path: Path) -> None:
    launch(tmp_path, "begin")
    with ThreadPoolExecutor(2) as pool:
        views = list(pool.map(lambda step: launch(tmp_path, step), ("left", "right")))
    assert [str(view.state) for view in views] == ["succeeded"] * 2
    with home_of(tmp_path).store() as store:
        assert [run.id for run in store.runs()] == ["r-1"]
        assert set(store.executions("r-1")) == {"begin", "left", "right"}


def test_a_step_that_comes_again_is_not_run_again_and_one_that_failed_for_good_stays_so(tmp_path: Path) -> None:
    ON_THE_WAY["left"] = fails(RetryableFailure("busy"))
    launch(tmp_path, "begin")
    launch(tmp_path, "begin")
    assert str(launch(tmp_path, "left").state) == "retryable"
    ON_THE_WAY["left"] = fails(PermanentFailure("broken"))
    assert str(launch(tmp_path, "left").state) == "failed"
    ON_THE_WAY.clear()
    assert "has failed for good" in launch(tmp_path, "left").message
    assert DONE == ["begin"]
    run = ended(tmp_path)
    assert (run.state, "left: " in run.message) == ("failed", True)
    assert msgspec.structs.replace(ended(tmp_path), lease=run.lease) == run


def test_launchers_refuse_records_on_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a mount"
    mounts = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in (("/", "nfs"), (str(inner), "nfs4"))]
    monkeypatch.setattr("psutil.disk_partitions", lambda **wanted: mounts if wanted["all"] else [])
    with pytest.raises(ComponentError, match=r"on a network file system \(nfs4\), .*: keep the records in PostgreSQL"):
        launch(inner, "begin")
    assert not (inner / "home").exists(), "not even opened"
    mounts[1].fstype = "ext4"
    assert str(launch(inner, "begin").state) == "succeeded"


def test_what_was_never_begun_is_no_success(tmp_path: Path) -> None:
    for step in ("begin", "left"):
        launch(tmp_path, step)
    run = ended(tmp_path)
    assert (run.state, run.message) == ("cancelled", "right, end: not done")
    with pytest.raises(NoSuchRun):
        ended(tmp_path, "r-2")


def test_a_runner_leaves_the_runs_of_an_orchestrator_alone_and_the_other_way_round(tmp_path: Path) -> None:
    launch(tmp_path, "begin")
    mine = runner(tmp_path).run(diamond(tmp_path))
    home = home_of(tmp_path)
    with home.store() as store:
        theirs = home.find(store, "r-1")
        assert theirs.state == "running"
        assert old_runs(home, store, 0) == [home.find(store, mine.run_id)]
    with pytest.raises(ComponentError, match="run r-1 belongs to argo"):
        runner(tmp_path).run(diamond(tmp_path), resume="r-1")
    with pytest.raises(ComponentError, match="belongs to a runner"):
        launch(tmp_path, "left", mine.run_id)
    with home.store() as store:
        assert stop_run(home, store, theirs, LaunchContext()).state == "cancelled"


def test_what_is_not_the_runs_is_an_error_and_nothing_runs(tmp_path: Path) -> None:
    launch(tmp_path, "begin")
    DONE.clear()
    with pytest.raises(ComponentError, match="has no step 'middle'; its steps are begin"):
        launch(tmp_path, "middle")
    with pytest.raises(ComponentError, match="not a valid id of a run"):
        launch(tmp_path, "begin", "../x")
    with pytest.raises(ComponentError, match="other parameters"):
        launch(tmp_path, "begin", left=11)
    assert DONE == []


def test_a_step_fails_before_those_that_it_reads_from_and_is_not_launched_if_it_was_cancelled(tmp_path: Path) -> None:
    view = launch(tmp_path, "left")
    assert (str(view.state), "this step reads the output of step begin, which has not succeeded" in view.message) == (
        "failed",
        True,
    )
    pipeline_runner = runner(tmp_path)
    pipeline_runner.cancel()
    view = pipeline_runner.run_step(diamond(tmp_path), "begin", run_id="r-1", orchestrator="argo")
    assert (str(view.state), DONE) == ("cancelled", [])


def test_of_two_launchers_of_a_step_one_launches_it_and_the_end_waits_for_it(tmp_path: Path) -> None:
    launch(tmp_path, "begin")
    home = home_of(tmp_path)
    with home.store() as store:
        words = "r-1/left is (running: its runner has locked|under way: held by) "
        with home.lock(store, "r-1", step="left", seconds=2.0):
            with pytest.raises(RunInProgress, match=words):
                launch(tmp_path, "left")
            with pytest.raises(CannotStop, match=words):
                ended(tmp_path)
        assert str(launch(tmp_path, "left").state) == "succeeded"
        assert DONE == ["begin", "left"]
