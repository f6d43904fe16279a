import fcntl
import os
import signal
import threading
from pathlib import Path

import msgspec
import pytest

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.pipeline.samples import DONE, ON_THE_WAY, Seen, diamond, fails, home_of, runner, states
from tfoperator.base.files import is_locked
from tfoperator.launcher import ComponentError, LaunchContext, RetryableFailure
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.pipeline import MetadataStore, PipelineFailed, RunInProgress, StepState, stop_run


@pytest.mark.usefixtures("place")
def test_one_run_is_one_runners_at_a_time(tmp_path: Path) -> None:
    go = threading.Event()
    ON_THE_WAY["begin"] = lambda *_: go.wait(60) and None
    seen = Seen()
    call = InThread(lambda: runner(tmp_path, listener=seen, lease_seconds=2.0).run(diamond(tmp_path)))
    eventually(lambda: any(view.state == StepState.RUNNING for view in seen.views), within=60)
    with pytest.raises(RunInProgress):
        runner(tmp_path).run(diamond(tmp_path), resume="latest")
    home = home_of(tmp_path)
    with home.store() as store:
        (run,) = store.runs()
        assert home.seen(run).state == "running"
        with pytest.raises(RunInProgress):
            stop_run(home, store, run, LaunchContext())
    go.set()
    assert call.result(60).state == "succeeded"


@pytest.mark.usefixtures("place")
def test_a_new_run_ends_what_a_dead_one_has_left(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    result = runner(tmp_path).run(diamond(tmp_path))
    with home.store() as store:
        (run,) = store.runs()
        store.put_run(msgspec.structs.replace(run, state="running", ended=None))
    seen = Seen()
    runner(tmp_path, listener=seen).run(diamond(tmp_path))
    with home.store() as store:
        dead = store.run(result.run_id)
        assert (dead.state, "runner of the run has died" in dead.message) == ("cancelled", True)
    assert any("the runner of run" in line for line in seen.messages)


def test_a_launcher_that_died_begins_the_same_execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Died(Exception):
        pass

    with monkeypatch.context() as patch:
        patch.setattr(WorkDirectory, "save", fails(Died()))
        with pytest.raises(PipelineFailed) as caught:
            runner(tmp_path).run(diamond(tmp_path))
    assert caught.value.result.state == "interrupted"
    result = runner(tmp_path).run(diamond(tmp_path), resume="latest")
    assert result.results["begin"].execution_id == 1


def test_a_success_that_its_runner_could_not_tell_any_more_is_used_by_the_next_run(tmp_path: Path) -> None:
    """Killed between the launch's record and the metadata."""
    killed = os.fork()
    if killed == 0:
        MetadataStore.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        runner(tmp_path, parallel=1).run(diamond(tmp_path))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == -signal.SIGKILL
    result = runner(tmp_path).run(diamond(tmp_path))
    assert states(result)["begin"] == "cached"
    assert sorted(DONE) == ["end", "left", "right"]


@pytest.mark.usefixtures("place")
def test_a_run_of_a_given_id_is_begun_once_and_gone_on_with_after_that(tmp_path: Path) -> None:
    ON_THE_WAY["left"] = fails(RetryableFailure("busy"))
    with pytest.raises(PipelineFailed):
        runner(tmp_path).run(diamond(tmp_path), run_id="job-1")
    ON_THE_WAY.clear()
    for _ in range(2):
        assert runner(tmp_path).run(diamond(tmp_path), run_id="job-1").run_id == "job-1"
    assert sorted(DONE) == ["begin", "end", "left", "right"]
    for bad in ("../up", "latest", "a/b", "x" * 200, "."):
        with pytest.raises(ComponentError, match="not a valid id of a run"):
            runner(tmp_path).run(diamond(tmp_path), run_id=bad)


def test_whoever_looks_at_a_run_keeps_no_runner_away(tmp_path: Path) -> None:
    """`is_locked` shares the lock for a moment: a runner that begins just then waits that long."""
    home = home_of(tmp_path)
    with home.store() as store:
        with home.lock(store, "r1"):
            assert is_locked(home.run_folder("r1") / "lock")
        assert not is_locked(home.run_folder("r1") / "lock")
        looking = os.open(home.run_folder("r1") / "lock", os.O_RDONLY)
        fcntl.flock(looking, fcntl.LOCK_SH)

        def begin() -> None:
            with home.lock(store, "r1"):
                pass

        call = InThread(begin)
        os.close(looking)
        call.result(60)


def test_looking_at_a_run_that_was_removed_makes_no_folder_of_it(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    runner(tmp_path).run(diamond(tmp_path))
    with home.store() as store:
        (run,) = store.runs()
    home.remove(run.id)
    assert home.seen(msgspec.structs.replace(run, state="running")).state == "interrupted"
    assert not home.run_folder(run.id).exists()
