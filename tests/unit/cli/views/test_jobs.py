from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tfoperator.cli.views.jobs import age


def test_ages_count_from_a_moment() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(now - timedelta(minutes=5), now) == "5m"
    assert age(None, now) == "-"
