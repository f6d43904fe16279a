"""Logs of steps in an object store: an S3 server on loopback, and machines that share nothing else."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from hack.s3_server import BUCKET
from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.services import s3, s3_variables
from tfoperator.launcher import ComponentError
from tfoperator.object_store import Objects, ObjectStoreError
from tfoperator.pipeline.step_logs import StepLogs

__all__ = ["s3", "s3_variables"]

pytestmark = pytest.mark.full

Machine = Callable[[], StepLogs]
LOG, POSITION = "runs/r/logs/S.log", "runs/r/steps/S/log-position"


@pytest.fixture
def store(s3: dict[str, str], tmp_path: Path) -> Objects:
    return Objects(f"s3://{BUCKET}/{tmp_path.name}")


@pytest.fixture
def machine(store: Objects, clock: FakeClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with ExitStack() as stack:

        def made() -> StepLogs:
            return stack.enter_context(closing(StepLogs(tmp_path_factory.mktemp("machine"), store, clock)))

        yield made


def content(store: Objects) -> dict[str, bytes]:
    return {obj.key: stored[0] for obj in store.all() if (stored := store.get(obj.key))}


def wait_copied(store: Objects, clock: FakeClock, key: str, expected: bytes) -> None:
    clock.wait_for_waiters()
    clock.advance(5)
    eventually(lambda: content(store).get(key) == expected, within=20, every=0.05, what=f"{key} is {expected!r}")


def test_a_log_is_read_elsewhere_while_it_grows_and_whole_at_its_end_and_as_it_is_when_it_is_begun_again(
    store: Objects, clock: FakeClock, machine: Machine
) -> None:
    writer, reader = machine(), machine()
    with pytest.raises(FileNotFoundError):
        list(reader.lines("r", "S"))
    add = writer.append_to("r", "S")
    add("one")
    wait_copied(store, clock, LOG, b"one\n")
    assert list(reader.lines("r", "S")) == ["one"]
    add("two")
    writer.close()
    assert list(reader.lines("r", "S")) == ["one"], "it was asked a moment ago"
    clock.advance(2)
    assert list(reader.lines("r", "S")) == ["one", "two"]
    store.put(LOG, b"anew\n")
    clock.advance(2)
    assert list(reader.lines("r", "S")) == ["anew"]
    reader.remove("r")
    assert content(store) == {}


def test_a_reader_keeps_copies_of_the_logs_that_it_has_looked_at_last(
    store: Objects, clock: FakeClock, machine: Machine
) -> None:
    reader = machine()
    for at in range(40):
        store.put(LOG.replace("S", f"S-{at}"), b"one\n")
        clock.advance(1)
        assert list(reader.lines("r", f"S-{at}")) == ["one"]
    assert 10 < len(list(reader.file("r", "S-39").parent.iterdir())) < 30


def test_the_successor_of_a_killed_writer_goes_on_where_that_was_and_leaves_no_line_out(
    store: Objects, clock: FakeClock, machine: Machine
) -> None:
    killed = machine()
    add, positions = killed.append_to("r", "S"), killed.positions("r", "S")
    positions.mkdir(parents=True)
    add("one")
    (positions / "log-position").write_text("1")
    wait_copied(store, clock, POSITION, b"1")
    assert set(content(store)) == {LOG, POSITION}
    add("two, which is not copied before it is killed")
    (positions / "log-position").write_text("2")

    successor = machine()
    add, positions = successor.append_to("r", "S"), successor.positions("r", "S")
    assert (positions / "log-position").read_text() == "1"
    add("two")
    (positions / "log-position").unlink()  # as a new attempt does, whose container has a log of its own
    successor.close()
    assert content(store) == {LOG: b"one\ntwo\n"}


def test_a_bucket_that_is_not_there_is_an_error_and_a_store_that_is_away_a_warning(
    store: Objects,
    clock: FakeClock,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ComponentError, match="this bucket does not exist"):
        StepLogs(tmp_path, Objects("s3://another/x")).check()
    step_logs = machine()
    step_logs.check()
    assert (content(store), caplog.messages) == ({}, [])

    def refuse_late(*_: object) -> None:
        clock.advance(60)
        refuse()

    other = machine()
    with monkeypatch.context() as outage:
        outage.setattr(Objects, "put", refuse_late)
        step_logs.check()
        other.append_to("r", "T")("lost")
        other.close()
        step_logs.append_to("r", "S")("kept here meanwhile")
        clock.wait_for_waiters()
    assert [text[:14] for text in caplog.messages] == [
        "logs of steps ",
        "logs of steps ",
        "the newest lin",
    ]
    wait_copied(store, clock, LOG, b"kept here meanwhile\n")


def test_a_writer_that_could_not_read_what_was_there_writes_nothing_over_it(
    store: Objects, machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(LOG, b"earlier\n")
    writer = machine()
    with monkeypatch.context() as outage:
        outage.setattr(Objects, "find", refuse)
        old, new = (writer.append_to("r", step) for step in ("S", "T"))
    old("later")
    new("first")
    writer.close()
    assert content(store) == {LOG: b"earlier\n", LOG.replace("S", "T"): b"first\n"}
    assert "has lines of an earlier runner" in caplog.text


def test_who_only_looks_at_a_log_to_be_appended_to_leaves_what_its_writer_adds_meanwhile(
    store: Objects, machine: Machine
) -> None:
    writer, other = machine(), machine()
    add = writer.append_to("r", "S")
    add("one")
    writer.flush()
    other.append_to("r", "S")
    writer.append_to("r", "S")("two")
    add("three")
    writer.close()
    other.close()
    assert content(store) == {LOG: b"one\ntwo\nthree\n"}


def test_who_has_lost_the_lease_writes_no_more(store: Objects, machine: Machine) -> None:
    before, after = machine(), machine()
    add = before.append_to("r", "S")
    add("one")
    before.flush()
    after.append_to("r", "S")("two")
    after.flush()
    before.abandon()
    add("cancelled")
    before.close()
    assert content(store) == {LOG: b"one\ntwo\n"}


def test_a_log_that_was_removed_is_written_anew_by_a_later_run_of_its_name(store: Objects, machine: Machine) -> None:
    step_logs = machine()
    step_logs.append_to("r", "S")("the same")
    step_logs.flush()
    kept = step_logs.file("r", "S")
    step_logs.remove("r")
    step_logs.flush()
    assert content(store) == {}
    step_logs.append_to("r", "S")
    assert not kept.exists()
    step_logs.append_to("r", "S")("the same")
    step_logs.flush()
    assert content(store) == {LOG: b"the same\n"}


def test_a_log_that_the_store_refuses_keeps_no_other_from_it(
    store: Objects, machine: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = machine()
    with monkeypatch.context() as outage:
        outage.setattr(Objects, "all", refuse)
        for step in ("S", "T"):
            writer.append_to("r", step)(f"of {step}")
    put = Objects.put

    def denied(objects: Objects, key: str, *rest: Any) -> None:
        put(objects, key, *rest)
        if key == LOG:
            raise ObjectStoreError("access is denied")

    with monkeypatch.context() as outage:
        outage.setattr(Objects, "put", denied)
        writer.flush()
        writer.flush()
    assert content(store)[LOG.replace("S", "T")] == b"of T\n"
    writer.append_to("r", "S")("and what is added after a write without an answer")
    writer.close()
    assert content(store)[LOG] == b"of S\nand what is added after a write without an answer\n"


def refuse(*_: object) -> None:
    raise ObjectStoreError("it does not answer", passing=True)
