from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tfoperator.cli.ages import age, duration

DAY = 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (47 * 3600, "47h"),
        (2 * DAY + 3600, "2d1h"),
        (10 * DAY + 3600, "10d"),
        (800 * DAY, "2y70d"),
    ],
)
def test_durations_have_the_precision_that_people_need(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ages_count_from_a_moment() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(now - timedelta(minutes=5), now) == "5m"
    assert age(None, now) == "-"
