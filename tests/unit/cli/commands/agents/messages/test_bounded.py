"""An answer is as short as the agent wants it, and lists what it lacks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.cli.commands.agents.messages.bounded import LEFT_OUT, TooSmall, bounded, text_of

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=40,
)


def test_a_short_answer_stays_as_it_is() -> None:
    answer = {"lines": ["a", "b"]}
    assert bounded(answer, 1000) is answer


def test_of_lines_the_last_stay_and_of_other_lists_the_first() -> None:
    short = bounded({"lines": [f"line {number}" for number in range(5000)], "jobs": ["one"]}, 2000)
    assert short["lines"][-1] == "line 4999"
    assert short["jobs"] == ["one"]
    assert short[LEFT_OUT][0] == f"lines: the last {len(short['lines'])} of 5000"
    assert 1700 < len(text_of(short)) <= 2000

    short = bounded({"jobs": [f"job {number}" for number in range(5000)]}, 2000)
    assert short["jobs"][0] == "job 0"
    assert short[LEFT_OUT] == [
        f"jobs: the first {len(short['jobs'])} of 5000",
        "for a longer answer, set maxCharacters",
    ]


def test_a_long_text_is_cut_before_a_list_of_short_ones() -> None:
    short = bounded({"message": "x" * 9000, "names": ["worker-1"] * 50, LEFT_OUT: ["an older run"]}, 3000)
    assert len(short["names"]) == 50
    assert short["message"].endswith("x…")
    assert short[LEFT_OUT][0] == "an older run"
    assert short[LEFT_OUT][1] == f"message: the first {len(short['message']) - 1} of 9000 characters"


def test_a_large_map_loses_members_and_a_record_does_not() -> None:
    short = bounded({"stacks": {f"worker-{number}": "somewhere" for number in range(1000)}, "job": "x"}, 2000)
    assert 20 < len(short["stacks"]) < 1000
    assert short["job"] == "x"


def test_an_answer_that_cannot_be_so_short_is_an_error() -> None:
    with pytest.raises(TooSmall, match="maxCharacters"):
        bounded({f"field{number}": "x" * 150 for number in range(20)}, 1000)


@given(PLAIN, st.integers(1000, 9000))
def test_any_answer_fits_or_is_an_error(value: Any, limit: int) -> None:
    answer = {"value": value, "lines": ["x" * 200] * 50}
    before = text_of(answer)
    try:
        short = bounded(answer, limit)
    except TooSmall:
        return
    assert len(text_of(short)) <= limit
    assert text_of(answer) == before, "the whole answer is unchanged"
    assert (LEFT_OUT in short) == (len(before) > limit)
    json.loads(text_of(short))
