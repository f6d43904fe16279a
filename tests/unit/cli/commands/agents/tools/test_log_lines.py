"""Lines of a log around a time or a text."""

from datetime import UTC, datetime

from tfoperator.cli.commands.agents.tools.log_lines import GAP, around, matching, nearest, with_times

LINES = [f"line {number}" for number in range(10)]


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)


def test_each_line_has_its_time() -> None:
    text = "2026-01-01T12:00:01.123456789Z first\n2026-01-01T12:00:02Z second\nno time\n2026-13-01T12:00:02Z odd"
    assert with_times(text) == [
        (at(1).replace(microsecond=123456), "first"),
        (at(2), "second"),
        (None, "no time"),
        (None, "2026-13-01T12:00:02Z odd"),
    ]
    assert with_times("2026-01-01T12:00:02 no zone") == [(None, "2026-01-01T12:00:02 no zone")]


def test_the_nearest_line_to_a_time() -> None:
    assert nearest([at(1), None, at(5), at(9)], at(6)) == [2]
    assert nearest([None, None], at(6)) == []


def test_lines_that_contain_a_text_in_any_letter_case() -> None:
    assert matching(["Error: x", "fine", "an ERROR"], "error") == [0, 2]
    assert matching([".*"], ".*") == [0]
    assert matching(["abc"], ".*") == []


def test_lines_before_and_after_each_place_once() -> None:
    assert around(LINES, [1, 2, 7], 1, 100) == [
        "line 0",
        "line 1",
        "line 2",
        "line 3",
        GAP,
        "line 6",
        "line 7",
        "line 8",
    ]
    assert around(LINES, [0, 9], 0, 100) == ["line 0", GAP, "line 9"]
    assert around(LINES, [1, 7], 1, 3) == ["line 6", "line 7", "line 8"]
    assert around([], [], 1, 3) == []
