from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import no_threads_left
from tfoperator.clock import SystemClock
from tfoperator.launcher.log_follower import LogCut, LogFollower, NoLog
from tfoperator.launcher.logs import LineSplitter, ResumableLines

START = datetime(2026, 1, 1, tzinfo=UTC)


def stamp(seconds: float, nanos: int = 0) -> str:
    return (START + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%S") + f".{nanos:09d}Z"


class Server:
    """A log as a server has it: from some second on, with times, or without times and always all of it."""

    def __init__(self, lines: list[tuple[str, str]], timed: bool = True) -> None:
        self.lines = lines
        self.timed = timed

    def since(self, since: str) -> list[bytes]:
        shown = [(t, text) for t, text in self.lines if not (self.timed and since) or t[:19] >= since[:19]]
        return [(f"{t} {text}" if self.timed else text).encode() for t, text in shown]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.sampled_from("ab")), max_size=40),
    st.lists(st.integers(0, 45), max_size=6),
    st.booleans(),
)
def test_every_line_is_told_once_over_any_number_of_cuts(
    written: list[tuple[int, int, str]], cuts: list[int], timed: bool
) -> None:
    # Seconds go up; nanoseconds within one may not, as two streams are written at once.
    lines = [(stamp(seconds, nanos), text) for seconds, nanos, text in sorted(written, key=lambda one: one[0])]
    told: list[str] = []
    server, reader = Server(lines, timed), ResumableLines(told.append)
    for cut in [*sorted(cuts), len(lines)]:
        so_far = Server(lines[:cut], timed)
        reader.connected()
        for line in so_far.since(reader.since()):
            reader.take(line)
    assert told == [text for _, text in server.lines]


def test_a_later_launcher_begins_behind_the_last_line() -> None:
    told: list[str] = []
    first = ResumableLines(told.append)
    first.take(f"{stamp(1, 5)} one".encode())
    first.take(f"{stamp(1, 7)} two".encode())

    second = ResumableLines(told.append, first.position)
    assert second.since() == "2025-12-31T23:59:59Z"
    for line in ("one", "two", "three"):
        second.take(f"{stamp(1, {'one': 5, 'two': 7, 'three': 8}[line])} {line}".encode())
    assert told == ["one", "two", "three"]


def test_times_with_other_zones_and_precisions_compare() -> None:
    told: list[str] = []
    reader = ResumableLines(told.append, "2026-01-01T02:00:00.5+02:00")
    reader.take(b"2026-01-01T00:00:00.499999999Z before")
    reader.take(b"2026-01-01T00:00:00.500000001Z after")
    reader.take(b"2026-01-01T00:00:01Z whole")
    reader.take(b"no time at all")
    reader.take(b"2026-01-01T00:00:02Z ")
    assert told == ["after", "whole", "no time at all", ""]


def test_lines_are_made_of_pieces_and_an_endless_one_is_told_in_pieces() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == [b"a"]
    assert splitter.feed(b"c\n\n") == [b"bc", b""]
    assert splitter.feed(b"x" * ((1 << 20) + 1)) == [b"x" * ((1 << 20) + 1)]
    assert splitter.end() == []
    splitter.feed(b"rest")
    assert splitter.end() == [b"rest"]


class Source:
    def __init__(self, items: list[bytes | Exception], blocks: bool = False) -> None:
        self._items = items
        self._closed = threading.Event()
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        for item in self._items:
            if isinstance(item, Exception):
                raise item
            yield item
        if self._blocks:
            self._closed.wait(20)

    def close(self) -> None:
        self._closed.set()


def follower(connect: Callable[[str], Source], told: list[str], kept: list[str] | None = None) -> LogFollower:
    keep = (kept if kept is not None else []).append
    one = LogFollower("pod", connect, told.append, clock=SystemClock(), keep=keep)
    one.start()
    return one


def test_a_cut_connection_loses_and_doubles_nothing() -> None:
    said = [f"{stamp(1)} one\n".encode(), f"{stamp(1, 1)} two\n{stamp(1, 2)} thr".encode()]
    answers = [
        Source([*said, LogCut("reset")]),
        Source([f"{stamp(1)} one\n{stamp(1, 1)} two\n{stamp(1, 2)} three\n".encode()], blocks=True),
    ]
    asked: list[str] = []
    told: list[str] = []
    kept: list[str] = []

    def connect(since: str) -> Source:
        asked.append(since)
        return answers[min(len(asked), 2) - 1]

    with no_threads_left():
        one = follower(connect, told, kept)
        eventually(lambda: told[-1:] == ["three"])
        one.finish(0.1)
    assert told == ["one", "two", "three"]
    assert asked[:2] == ["", "2025-12-31T23:59:59Z"]
    assert kept[-1] == stamp(1, 2)


def test_what_is_written_last_is_told_although_the_answer_had_ended_before() -> None:
    told: list[str] = []
    texts = [b"", b"early\n"]

    def connect(_: str) -> Source:
        return Source([b"".join(texts)])

    with no_threads_left():
        one = follower(connect, told)
        eventually(lambda: told == ["early"])
        texts.append(b"last words without an end")
        one.finish()
    assert told == ["early", "last words without an end"]


def test_a_log_that_can_not_be_read_or_does_not_end_holds_up_nothing() -> None:
    def refuse(_: str) -> Source:
        raise NoLog("403")

    def cut(_: str) -> Source:
        raise LogCut("not yet")

    def bug(_: str) -> Source:
        raise RuntimeError("bug")

    with no_threads_left():
        for connect in (refuse, cut, bug):
            follower(connect, []).finish(0.1)
        follower(lambda _: Source([b"a\n"], blocks=True), []).finish(0.1)


def test_the_clock_of_a_follower_is_injected() -> None:
    clock, told = FakeClock(), []  # type: ignore[var-annotated]
    one = LogFollower("pod", lambda _: Source([b"a\n"]), told.append, clock=clock)
    with no_threads_left():
        one.start()
        clock.wait_for_deadline(0.2)
        one.finish()
    assert told == ["a"]
