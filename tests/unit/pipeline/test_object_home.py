"""A run whose records are objects: its runner dies, another goes on elsewhere, and the first comes back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.pipeline.samples import DONE, ON_THE_WAY, Seen, diamond, runner, states
from tfoperator.base.controlchars import without_controls
from tfoperator.launcher import LaunchContext, OwnershipLost, WorkDirectoryError
from tfoperator.launcher.core import LaunchRecord, WorkDirectory
from tfoperator.pipeline import Home, PipelineCancelled, PipelineResult, RunInProgress, open_home, stop_run
from tfoperator.pipeline.lease import RunLease
from tfoperator.pipeline.object_keeper import ObjectKeeper
from tfoperator.pipeline.objects import FileObjects
from tfoperator.pipeline.objects.files import MARKER
from tfoperator.pipeline.outbox import Outbox
from tfoperator.pipeline.runner import clean_run


@pytest.fixture
def place(tmp_path: Path) -> str:
    (tmp_path / "beside").touch()  # an empty folder might be one on which nothing is mounted
    return f"file://{tmp_path}/objects"


@pytest.fixture
def home(place: str) -> Iterator[Home]:
    home = open_home(place)
    yield home
    home.close()


def objects_of(place: str) -> FileObjects:
    return FileObjects(Path(place.removeprefix("file://")))


def killed_run(tmp_path: Path, place: str) -> str:
    """A run whose runner was killed in its step `left`; its id."""
    pid = os.fork()
    if pid == 0:
        try:
            ON_THE_WAY["left"] = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            runner(tmp_path, parallel=1, home=place).run(diamond(tmp_path), run_id="killed")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    return "killed"


def result_once_the_lease_has_run_out(call: InThread, clock: FakeClock) -> PipelineResult:
    while call.running:
        clock.advance(2)
        call.join(0.05)
    result: PipelineResult = call.result()
    return result


def test_a_runner_is_followed_by_another_once_its_lease_has_run_out(tmp_path: Path, place: str, home: Home) -> None:
    run_id = killed_run(tmp_path, place)
    with home.store() as store:
        run = store.run(run_id)
        assert run is not None
        assert home.seen(run).state == "running"  # nobody on another machine can know better yet
        owner = home.owner(run)
        assert owner is not None
        assert owner.until is not None
        with pytest.raises(RunInProgress, match="held by"):
            stop_run(home, store, run, LaunchContext())
        clock, seen = FakeClock(), Seen()
        context = LaunchContext(clock=clock)
        call = InThread(
            lambda: runner(tmp_path, home=place, context=context, listener=seen).run(diamond(tmp_path), run_id=run_id)
        )
        result = result_once_the_lease_has_run_out(call, clock)
        assert states(result) == dict.fromkeys(("begin", "left", "right", "end"), "succeeded")
        assert "begin" not in DONE
        assert any("until it has run out" in line for line in seen.told)
        after = store.run(run_id)
        assert after is not None
        assert (after.state, after.term, home.owner(after)) == ("succeeded", 2, None)
        assert {one.state for one in store.executions(run_id).values()} == {"COMPLETE"}


def test_a_runner_that_waits_for_a_lease_can_be_cancelled(tmp_path: Path, place: str) -> None:
    run_id = killed_run(tmp_path, place)
    clock, seen = FakeClock(), Seen()
    waiting = runner(tmp_path, home=place, context=LaunchContext(clock=clock), listener=seen)
    call = InThread(lambda: waiting.run(diamond(tmp_path), resume=run_id))
    eventually(lambda: any("until it has run out" in line for line in seen.told))
    waiting.cancel()
    with pytest.raises(PipelineCancelled, match="while it waited: run killed is under way"):
        call.result(60)


def test_stop_waits_for_the_lease_and_records_that_the_run_was_cancelled(
    tmp_path: Path, place: str, home: Home
) -> None:
    run_id = killed_run(tmp_path, place)
    with home.store() as store:
        run = store.run(run_id)
        assert run is not None
        clock = FakeClock()
        context = LaunchContext(clock=clock)
        call = InThread(lambda: stop_run(home, store, run, context, wait=True))
        while call.running:
            clock.advance(2)
            call.join(0.05)
        assert call.result().state == "cancelled"
        assert {one.state for one in store.executions(run_id).values()} == {"COMPLETE", "CANCELED"}


def test_a_runner_whose_run_was_taken_over_stops_and_records_nothing(tmp_path: Path, place: str, home: Home) -> None:
    """It was held up for longer than its lease, and goes on in the middle of a step."""
    go, at_work = threading.Event(), threading.Event()

    def held_up(*_: object) -> None:
        at_work.set()
        go.wait(60)

    ON_THE_WAY["begin"] = held_up
    clock = FakeClock()
    context = LaunchContext(clock=clock)
    first = InThread(lambda: runner(tmp_path, home=place, context=context).run(diamond(tmp_path), run_id="slow"))
    assert at_work.wait(60)
    ON_THE_WAY.clear()
    other = FakeClock()
    other_context = LaunchContext(clock=other)
    second = InThread(lambda: runner(tmp_path, home=place, context=other_context).run(diamond(tmp_path), run_id="slow"))
    result = result_once_the_lease_has_run_out(second, other)
    assert (result.state, sorted(DONE)) == ("succeeded", ["begin", "end", "left", "right"])
    go.set()
    clock.advance(60)
    with pytest.raises(OwnershipLost):
        first.result(60)
    with home.store() as store:
        run = store.run("slow")
        assert run is not None
        assert (run.state, run.term) == ("succeeded", 2)
        assert {one.state for one in store.executions("slow").values()} == {"COMPLETE"}


def test_runs_are_listed_with_their_logs_and_cleaned(tmp_path: Path, place: str, home: Home) -> None:
    result = runner(tmp_path, home=place).run(diamond(tmp_path))
    with home.store() as store, home.lock(result.run_id) as ownership:
        add = home.log_to(result.run_id, "begin")
        add("one\x07 line")
        add("two")
        ownership.check()
    assert list(home.log_lines(result.run_id, "begin")) == [without_controls("one\x07 line"), "two"]
    with pytest.raises(FileNotFoundError):
        list(home.log_lines(result.run_id, "end"))
    with home.store() as store:
        run = home.find(store, "last")
        removed = clean_run(home, store, run, outputs=True)
        assert len(removed) == 4
        assert store.runs() == []
    assert [key for key in objects_of(place).keys("") if not key.startswith("metadata/")] == [MARKER]


def test_a_record_is_its_last_claimers(tmp_path: Path, place: str) -> None:
    objects = objects_of(place)
    outbox = Outbox(objects, FakeClock(), "1")
    record = LaunchRecord("c", "f", 1, "r")
    first = ObjectKeeper(objects, "runs/x/steps/c/", outbox)
    second = ObjectKeeper(objects, "runs/x/steps/c/", outbox)
    with WorkDirectory(tmp_path / "one", first) as one:
        assert one.load() is None
        with WorkDirectory(tmp_path / "two", second) as two:
            with pytest.raises(OwnershipLost):
                one.save(record)  # it can't even make a record that is not there yet
            assert two.load() is None
            two.save(record)
            two.keep_log_position("2026-01-01T00:00:00Z", "main")
            outbox.start()
            outbox.stop()
            with pytest.raises(OwnershipLost):
                one.save(record)
            assert (two.load(), two.log_position("main")) == (record, "2026-01-01T00:00:00Z")
            two.forget()
            assert two.load() is None
    objects.put("runs/x/steps/c/launch.json", b"\xff")
    with pytest.raises(WorkDirectoryError, match="can't be read"):
        first.claim()


def test_on_one_machine_nobody_waits_for_a_dead_runners_lease(tmp_path: Path) -> None:
    """The kernel's lock is free, and the lease is one of this kernel's."""
    home = Home(tmp_path / "home")
    clock = FakeClock()
    lease = RunLease(FileObjects(home.path), "runs/x/lease.json", clock)
    assert lease.take(lease.look())
    with home.lock("x") as ownership:
        assert ownership.term == 2


def test_a_directory_is_another_machines_until_its_lease_has_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that the kernels of two machines do not share."""
    home = Home(tmp_path / "home")
    with monkeypatch.context() as patch:
        patch.setattr("tfoperator.pipeline.lease.kernel_id", lambda: "another machine's")
        lease = RunLease(FileObjects(home.path), "runs/x/lease.json", FakeClock())
        assert lease.take(lease.look())
    with pytest.raises(RunInProgress, match="held by"):
        home.lock("x")
    clock = FakeClock()
    call = InThread(lambda: home.lock("x", clock, wait=True))
    eventually(lambda: clock.advance(2) or not call.running, within=60, every=0.02)
    with call.result() as ownership:
        assert ownership.term == 2
