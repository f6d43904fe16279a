import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.base.durations import format_duration, human_duration, parse_duration

HOUR, DAY = 3600, 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("20.5", 20.5), ("15s", 15), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("2m5s", 125),
        ("250ms", 0.25), ("1s250ms", 1.25), (" 1s ", 1), ("0", 0), ("0s", 0),
    ],
)  # fmt: skip
def test_durations_are_read_as_go_and_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "h", "-1s", "-1", "1d", "5m1h", "1m1m", "1h30", "1 h", "5 minutes", "15sx", "nan", "inf"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.25, "0.25s"), (15, "15s"), (90, "90s"), (300, "5m"), (90 * DAY, "2160h")]
)
def test_durations_are_written_exactly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**8).map(lambda milliseconds: milliseconds / 1000))
def test_what_is_written_is_read_again(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1.9, "0s"), (-1, "0s"), (0, "0s"), (0.9, "0s"), (119, "119s"),
        (120, "2m"), (150, "2m30s"), (200, "3m20s"), (600, "10m"),
        (3 * HOUR, "3h"), (3 * HOUR + 60, "3h1m"), (10 * HOUR, "10h"), (47 * HOUR, "47h"),
        (50 * HOUR, "2d2h"), (2 * DAY + HOUR, "2d1h"), (10 * DAY + HOUR, "10d"), (30 * DAY, "30d"),
        (800 * DAY, "2y70d"), (3 * 365 * DAY, "3y"), (3000 * DAY, "8y"),
    ],
)  # fmt: skip
def test_ages_have_the_precision_that_people_need(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text
