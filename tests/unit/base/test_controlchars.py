import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.base.controlchars import json_text, plain_text, printable, shown_lines, without_controls

CONTROLS = re.compile(r"(?!\x1b\[[0-9;:]*m)[\x00-\x08\x0a-\x1f\x7f-\x9f]")
hostile = st.text(alphabet="\x1b[]P\\;0m38HJ?>\x07\x9b\x85\x7f\r\n\t a", max_size=30)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9 \t tab", "plain \u00e9 \t tab"),
        ("\x1b[1;31mred\x1b[0m \x1b[38:5:1mx\x1b[m", "\x1b[1;31mred\x1b[0m \x1b[38:5:1mx\x1b[m"),
        ("\x1b[2J\x1b[H\x1b[>4;1mx\x1b[?25l", "x"),
        ("\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x1b\\x", "x"),
        ("\x9b2J\x9d0;t\x9c", "\ufffd2J\ufffd0;t\ufffd"),
        ("a\rb\nc", "a\ufffdb\ufffdc"),
        ("\x1b\x1b[2Jx\x1b", "\ufffdx\ufffd"),
        ("\x1bPnever ends", "never ends"),
        ("a\u200fb\u200ec\u061cd", "a\ufffdb\ufffdc\ufffdd"),
        ("loss\u202e 0.1\u2066 \u05d0", "loss\ufffd 0.1\ufffd \u05d0"),
    ],
)
def test_of_a_programs_output_only_colours_reach_a_terminal(text: str, shown: str) -> None:
    assert without_controls(text) == shown


@given(hostile)
def test_no_control_character_gets_through_and_no_line_is_swallowed(text: str) -> None:
    assert not CONTROLS.search(without_controls(text))
    assert not CONTROLS.search(without_controls(text, keep="\r\n").replace("\r", "").replace("\n", ""))
    assert all(c.isprintable() or c == "\n" for c in printable(text))
    assert without_controls(text, keep="\n").count("\n") == text.count("\n")


@pytest.mark.parametrize("text", ["\x1b]", "\x1bP", "\x1b[0", "\x1b", "\x1b[0;" * 3 + "x"])
def test_a_long_hostile_text_takes_no_long_time(text: str) -> None:
    began = time.process_time()
    without_controls(text * 200_000)
    assert time.process_time() - began < 5


@given(st.dictionaries(hostile, hostile | st.integers() | st.none()))
def test_json_loses_nothing_and_controls_nothing(value: dict[str, Any]) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", text)


def test_json_stays_readable() -> None:
    assert json_text({"a": "gr\u00f6\u00dfe\x9b\u202e"}) == '{"a": "gr\u00f6\u00dfe\\u009b\\u202e"}'


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a\n\nb", ["a", "", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("it failed\n\r1 of 2\r2 of 2\n", ["it failed", "2 of 2"]),
        ("1 of 2\r2 of 2\r", ["2 of 2"]),
        ("page\x0cfeed \u2028 \x85 \x0b\n", ["page\x0cfeed \u2028 \x85 \x0b"]),
    ],
)
def test_a_line_of_a_log_ends_at_a_line_feed_and_is_what_was_written_over_it_last(text: str, lines: list[str]) -> None:
    assert shown_lines(text) == lines


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("step 7", "step 7"),
        ("\x1b[1m70/70\x1b[0m \x1b[32m━━\x1b[0m loss: 0.5", "70/70 ━━ loss: 0.5"),
        ("\x1b]0;title\x07a\x1b[2Kb\x07", "ab\ufffd"),
        ("1/70\b\b\b\b2/70", "2/70"),
        ("\b\b\bab\b", "a"),
    ],
)
def test_a_plain_line_has_neither_colours_nor_what_was_overwritten(line: str, plain: str) -> None:
    assert plain_text(line) == plain


@pytest.mark.timeout(20)
def test_a_plain_line_takes_time_by_its_length_only() -> None:
    assert plain_text("a" * 300_000 + "\b" * 300_000) == ""


def test_json_has_texts_in_place_of_numbers_that_it_does_not_have() -> None:
    value = {"loss": float("nan"), "all": [float("inf"), (-float("inf"), 0.5)], "name": "NaN"}
    expected = {"loss": "NaN", "all": ["Infinity", ["-Infinity", 0.5]], "name": "NaN"}
    assert json.loads(json_text(value), parse_constant=pytest.fail) == expected
