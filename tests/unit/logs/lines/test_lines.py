from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.logs.lines.lines import MAX_LINE, ResumableLines

START = datetime(2026, 1, 1, tzinfo=UTC)
NOISE = b"2026-01-01T00:00:00.123456Z as some programs begin their lines\n"


def stamp(seconds: float, nanos: int = 0) -> str:
    return (START + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%S") + f".{nanos:09d}Z"


class Log:
    """A log as a server has it: from some second on, with times, or without times and always all of it."""

    def __init__(self, lines: list[tuple[str, str]], timed: bool = True) -> None:
        self.lines = lines
        self.timed = timed

    def since(self, since: str, written: int, tail: int = 0) -> bytes:
        lines = [line for line in self.lines[:written] if not (self.timed and since) or line[0][:19] >= since[:19]]
        return "".join(f"{t} {text}\n" if self.timed else f"{text}\n" for t, text in lines[-tail:]).encode()


WRITTEN = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.sampled_from("ab")), max_size=40)
CUTS = st.lists(st.tuples(st.integers(0, 45), st.integers(0, 40), st.integers(1, 50)), max_size=6)


def log_of(written: list[tuple[int, int, str]], timed: bool) -> Log:
    # Seconds go up; nanoseconds within one may not, as two streams are written at once.
    return Log([(stamp(seconds, nanos), text) for seconds, nanos, text in sorted(written, key=lambda w: w[0])], timed)


def read(reader: ResumableLines, data: bytes, size: int = 1 << 20) -> list[str]:
    """Return the lines from a connection that sends these bytes, so many at a time."""
    reader.connected()
    return [line for at in range(0, len(data), size) for line in reader.feed(data[at : at + size])]


@given(WRITTEN, CUTS, st.booleans())
def test_each_line_is_new_once_and_in_order_over_any_cuts(written: list[Any], cuts: list[Any], timed: bool) -> None:
    log, reader, seen = log_of(written, timed), ResumableLines(), []
    for lines, missing, size in [*sorted(cuts), (len(log.lines), 0, 7)]:
        data = log.since(reader.since(), lines)
        seen += read(reader, data[: max(0, len(data) - missing)], size)
    assert seen + reader.end() == [text for _, text in log.lines]


@given(WRITTEN.filter(bool), CUTS, st.integers(1, 40), st.integers(1, 5))
def test_after_a_cut_the_end_of_a_log_shows_nothing_older(
    written: list[Any], cuts: list[Any], begin: int, tail: int
) -> None:
    # In the order of their times: older lines with later times than the first wanted one can't be recognised.
    unlike = [(seconds, nanos, f"line {number}") for number, (seconds, nanos, _) in enumerate(sorted(written))]
    log, reader = log_of(unlike, timed=True), ResumableLines()
    seen = read(reader, log.since("", begin, tail))
    for lines in [*sorted(max(begin, cut[0]) for cut in cuts), len(log.lines)]:
        seen += read(reader, log.since(reader.since(), lines))
    assert seen == [text for _, text in log.lines[max(0, min(begin, len(log.lines)) - tail) :]]


def test_a_later_process_begins_behind_the_last_line() -> None:
    lines = [f"{stamp(1, nanos)} {text}\n".encode() for nanos, text in ((5, "one"), (7, "two"), (8, "three"))]
    first = ResumableLines()
    assert read(first, b"".join(lines[:2])) == ["one", "two"]
    second = ResumableLines(first.position)
    assert second.since() == "2025-12-31T23:59:59Z"
    assert read(second, b"".join(lines)) == ["three"]


def test_times_with_other_zones_and_precisions_compare() -> None:
    reader = ResumableLines("2026-01-01T02:00:00.5+02:00")
    data = (
        b"2026-01-01T00:00:00.499999999Z before\n2026-01-01T00:00:00.500000001Z after\n"
        b"2026-01-01T00:00:01Z whole\nno time at all\n2026-01-01T00:00:02Z \n"
    )
    assert read(reader, data) == ["after", "whole", "no time at all", ""]


def test_a_log_without_times_keeps_those_that_a_program_writes() -> None:
    reader = ResumableLines()
    assert read(reader, NOISE) == [NOISE.decode().rstrip()]
    assert read(reader, NOISE * 2) == [NOISE.decode().rstrip()]
    assert reader.position == ""


def test_a_server_that_could_not_give_the_log_at_first_gives_times_later() -> None:
    reader = ResumableLines()
    assert read(reader, b"unable to retrieve container logs for containerd://a\n") != []
    assert read(reader, f"{stamp(1)} one\n".encode()) == ["one"]
    assert read(reader, f"{stamp(1)} one\n{stamp(2)} two\n".encode()) == ["two"]


def test_an_endless_line_comes_in_the_same_pieces_however_often_it_is_cut() -> None:
    reader, text = ResumableLines(), "x" * (5 * MAX_LINE // 2)
    data = f"{stamp(1)} {text}\n{stamp(1, 1)} next\n".encode()
    seen = read(reader, data[: 3 * MAX_LINE // 2], 99_999)
    assert len(seen) == 1
    seen += read(reader, data, 77_777)
    assert ("".join(seen[:-1]), seen[-1]) == (text, "next")


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-13-45T99:99:99.000000000Z",
        "0001-01-01T00:00:00.000000000+23:59",
        "0001-01-01T00:00:00.000000000Z",
        "9999-12-31T23:59:59.000000000-23:59",
        "2026-01-01T00:00:00.000000000+99:99",
    ],
)
def test_what_only_looks_like_a_time_is_a_line_like_any_other(stamp: str) -> None:
    """A container may begin its lines so, where the server gives no times."""
    lines = [f"{stamp} a", "b"]
    assert read(ResumableLines(), "".join(f"{line}\n" for line in lines).encode()) == lines
    timed = ResumableLines()
    text = f"2026-01-01T00:00:00.000000000Z x\n{stamp} a\n2026-01-01T00:00:01.000000000Z y\n"
    assert read(timed, text.encode()) == ["x", f"{stamp} a", "y"]


def test_times_are_kept_if_wanted() -> None:
    reader = ResumableLines(keep_times=True)
    first, second, third = f"{stamp(1)} one", f"{stamp(2)} two", f"{stamp(3)} three"
    assert read(reader, f"{first}\n{second}\n".encode(), size=7) == [first, second]
    assert read(reader, f"{first}\n{second}\n{third}\n".encode()) == [third]
