import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.fields.int_or_percent import (
    NUMBER_OR_PERCENT,
    POSITIVE_NUMBER_OR_PERCENT,
    IntOrPercent,
    allowed,
    required,
)

TOTALS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("value", "total", "at_least", "at_most"),
    [
        (3, 5, 3, 3),
        (9, 5, 5, 5),
        (0, 5, 1, 0),
        ("80%", 5, 4, 4),
        ("50%", 5, 3, 2),
        ("1%", 5, 1, 0),
        ("34%", 3, 2, 1),
        ("0%", 5, 1, 0),
        ("100%", 5, 5, 5),
        ("29%", 100, 29, 29),  # 0.29 * 100 is less than 29 in floating point
        ("many", 5, 5, 0),
        ("200%", 5, 5, 0),
        ("-1%", 5, 5, 0),
        (-1, 5, 1, 0),
    ],
)
def test_what_must_be_reached_is_rounded_up_and_what_is_allowed_down(
    value: IntOrPercent, total: int, at_least: int, at_most: int
) -> None:
    assert (required(value, total), allowed(value, total)) == (at_least, at_most)


@given(value=st.integers(-(10**30), 10**30) | st.integers(0, 100).map("{}%".format) | st.text(max_size=6), total=TOTALS)
def test_there_are_never_more_than_all(value: IntOrPercent, total: int) -> None:
    assert min(1, total) <= required(value, total) <= total
    assert 0 <= allowed(value, total) <= total


@given(percent=st.integers(1, 100), total=TOTALS)
def test_a_percentage_and_the_rest_of_it_make_a_whole(percent: int, total: int) -> None:
    assert max(required(f"{percent}%", total), 0) + allowed(f"{100 - percent}%", total) == total


def test_what_is_a_percentage() -> None:
    texts = ["0%", "9%", "10%", "99%", "100%", "", "%", "5", "05%", "101%", "1.5%", "-1%", "5 %", "٣%"]
    assert [text for text in texts if NUMBER_OR_PERCENT.fits(text)] == texts[:5]
    assert [text for text in texts if POSITIVE_NUMBER_OR_PERCENT.fits(text)] == texts[1:5]
