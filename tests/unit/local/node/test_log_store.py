import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tfoperator.local.node.log_store import LineTimes, LogNotFound, LogStore
from tfoperator.local.runtime.log_files import LogRequest


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path)


def text(store: LogStore, container: str = "c", **wanted: Any) -> str:
    return b"".join(store.read(LogRequest("ns", "p", container, **wanted))).decode()


def test_attempts_are_counted_per_container_and_over_runs(tmp_path: Path, store: LogStore) -> None:
    first, second = store.open("ns", "p", "c"), store.open("ns", "p", "c")
    assert (first.attempt, second.attempt, store.open("ns", "p", "other").attempt) == (0, 1, 0)
    assert second.path == tmp_path / "ns" / "p" / "c" / "1.log"
    assert LogStore(tmp_path).open("ns", "p", "c").attempt == 2


def test_the_latest_attempt_is_read_and_the_one_before_on_request_if_it_is_this_pods(store: LogStore) -> None:
    store.open("ns", "p", "c", owner="first pod").append("old")
    store.open("ns", "p", "c", owner="first pod").append("new")
    assert (text(store), text(store, "", previous=True)) == ("new\n", "old\n")
    store.open("ns", "p", "c", owner="second pod").append("newest")
    assert text(store) == "newest\n"
    with pytest.raises(LogNotFound, match="previous"):
        store.read(LogRequest("ns", "p", "c", previous=True))


def test_a_log_that_is_not_there_is_an_error_before_iteration(store: LogStore) -> None:
    with pytest.raises(LogNotFound, match="ns/p has not started"):
        store.read(LogRequest("ns", "p", "c"))
    store.open("ns", "p", "c")
    with pytest.raises(LogNotFound, match="previous"):
        store.read(LogRequest("ns", "p", "c", previous=True))
    store.open("ns", "p", "d")
    with pytest.raises(LogNotFound, match="c, d"):
        store.read(LogRequest("ns", "p", ""))


def test_a_follower_gets_what_is_written_until_the_container_ends(store: LogStore) -> None:
    log = store.open("ns", "p", "c")
    log.append("before")
    pieces: list[bytes] = []
    arrived = threading.Event()

    def follow() -> None:
        for piece in store.read(LogRequest("ns", "p", "c", follow=True)):
            pieces.append(piece)
            if piece:
                arrived.set()

    following = InThread(follow)
    assert arrived.wait(60)
    log.append("after")
    log.close()
    following.result()
    assert b"".join(pieces) == b"before\nafter\n"


@pytest.mark.parametrize("timestamps", [False, True])
def test_a_follower_of_a_log_that_was_emptied_begins_again(store: LogStore, timestamps: bool) -> None:
    log = store.open("ns", "p", "c")
    log.append("written before")
    lines = store.read(LogRequest("ns", "p", "c", follow=True, timestamps=timestamps))
    assert next(lines).endswith(b"written before\n")
    log.path.write_text("new\n")
    log.close()
    assert b"".join(lines).endswith(b"new\n")


def test_closing_the_store_ends_followers_and_a_log_knows_how_its_container_ended(store: LogStore) -> None:
    log = store.open("ns", "p", "c")
    following = InThread(lambda: list(store.read(LogRequest("ns", "p", "c", follow=True))))
    assert not log.closed
    store.close()
    following.result()
    log.close(3)
    log.close(0, stopped=True)
    assert (log.exit_code, log.stopped) == (3, False)


def timed(store: LogStore, **wanted: Any) -> list[str]:
    return text(store, **wanted).splitlines()


def test_lines_have_the_time_at_which_the_log_was_seen_to_grow(tmp_path: Path, clock: FakeClock) -> None:
    store = LogStore(tmp_path, clock=clock)
    log = store.open("ns", "p", "c")
    for piece in ("one\ntwo\n", "", "three\nfo", "ur\n"):
        log.append(piece, end="")
        store.note_times()
        clock.advance(1.5)
    log.close(0)
    times = ("00:00:00 one", "00:00:00 two", "00:00:03 three", "00:00:03 four")
    assert timed(store, timestamps=True) == [f"2026-01-01T{time.replace(' ', '.000000000Z ')}" for time in times]
    begin = clock.now() - timedelta(seconds=6)
    assert timed(store, since=begin) == ["one", "two", "three", "four"]
    assert timed(store, since=begin + timedelta(seconds=1)) == ["three", "four"]
    assert timed(store, since=begin + timedelta(seconds=1), tail_lines=1) == ["four"]
    assert timed(store, since=begin + timedelta(seconds=5)) == []


def test_times_stay_whoever_reads_and_whatever_the_clock_does(tmp_path: Path, clock: FakeClock) -> None:
    store = LogStore(tmp_path, clock=clock)
    log = store.open("ns", "p", "c")
    log.append("one")
    first = timed(store, timestamps=True)  # the first look at the size
    clock.advance(10)
    clock.jump_wall(-3600)
    log.append("two")
    log.append("no end", end="")
    assert timed(store, timestamps=True) == [*first, first[0].replace("one", "two"), first[0].replace("one", "no end")]


def test_a_follower_gets_the_time_of_each_line_once_it_is_whole(store: LogStore) -> None:
    log = store.open("ns", "p", "c")
    lines = store.read(LogRequest("ns", "p", "c", follow=True, timestamps=True))
    log.append("ha", end="")
    assert next(lines) == b""
    log.append("lf")
    assert next(piece for piece in lines if piece).endswith(b"Z half\n")
    log.append("last", end="")
    log.close(0)
    assert b"".join(lines).endswith(b"Z last\n")


def test_a_log_that_grows_for_weeks_has_bounded_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfoperator.local.node.log_store._MOST", 10)
    times, begin = LineTimes(), datetime(2026, 1, 1, tzinfo=UTC)
    times_by_number = {}
    for number in range(10_000):
        times.note(10 * (number + 1), begin + timedelta(seconds=number), read=number in (5, 500))
        if number in (5, 500):
            times_by_number[number] = times.written(10 * number)
    assert len(times._sizes) <= 110
    assert times.written(50) == times_by_number[5] == begin + timedelta(seconds=5)
    assert times.written(5000) == times_by_number[500] >= begin + timedelta(seconds=500)
