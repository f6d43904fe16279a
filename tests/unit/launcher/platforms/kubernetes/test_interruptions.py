"""Which ends are the program's own, by whole seconds of two clocks."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.launcher.platforms.kubernetes.interruptions import (
    Interruption,
    interrupted_by,
    limit_reached,
    visible_lag,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def deleted(seconds: float | None) -> Interruption:
    return Interruption("deleted", None if seconds is None else at(seconds))


def limit(seconds: float | None) -> Interruption:
    return Interruption("limit", None if seconds is None else at(seconds), by_limit=True)


@pytest.mark.parametrize(
    ("ended", "orders", "lag", "by"),
    [
        (9, [], 0, None),
        (None, [], 0, None),
        (9, [deleted(10)], 0, None),
        (10, [deleted(10)], 0, "deleted"),
        (11, [deleted(10)], 0, "deleted"),
        (None, [deleted(10)], 0, "deleted"),
        (9, [deleted(None)], 0, "deleted"),
        (9, [deleted(10), limit(12)], 0, None),
        (11, [deleted(20), limit(10)], 0, "limit"),
        (11, [deleted(10), limit(10)], 0, "deleted"),
        (9, [deleted(10), deleted(8)], 0, "deleted"),
        (9, [deleted(12)], 2, None),
        (9, [deleted(12)], 3, "deleted"),
        (9, [deleted(12)], 100, "deleted"),
    ],
)
def test_an_end_is_the_programs_own_only_if_it_certainly_came_first(
    ended: float | None, orders: list[Interruption], lag: float, by: str | None
) -> None:
    interruption = interrupted_by(None if ended is None else at(ended), orders, lag)
    assert (interruption.message if interruption else None) == by


def test_times_beyond_the_calendar_are_no_evidence_of_a_success() -> None:
    assert limit_reached(at(0), 1 << 62) is None
    assert limit_reached(None, 5) is limit_reached(at(0), None) is None
    assert limit_reached(at(1), 5) == at(6)
    least = datetime.min.replace(tzinfo=UTC)
    assert interrupted_by(at(0), [Interruption("deleted", least)]) is not None
    assert interrupted_by(datetime.max.replace(tzinfo=UTC), [deleted(0)], lag=5) is not None
    assert interrupted_by(datetime(2026, 1, 1), [deleted(1)]) is None, "a time without a zone is one of UTC"


@pytest.mark.parametrize(
    ("bound", "accepted", "lag"),
    [(10, 10, 0), (10, 11, 0), (10, 9, 2), (10, 8, 3), (10, 1000, 0), (None, 5, 0), (10, None, 0)],
)
def test_a_clock_that_is_behind_shows_when_its_kubelet_accepts_a_pod(
    bound: float | None, accepted: float | None, lag: float
) -> None:
    times = [None if moment is None else at(moment) for moment in (bound, accepted)]
    assert visible_lag(*times) == lag


moments = st.floats(0, 1000)
pauses = st.floats(0, 10)
KUBELET = st.floats(0, 0.5)
"""Seconds after which a kubelet notices a pod that was bound to its node."""


def shown(seconds: float) -> datetime:
    """Return the time on a clock with whole seconds."""
    return at(math.floor(seconds))


@given(ordered=moments, pause=pauses, behind=st.floats(-60, 60), bound=moments, notices=KUBELET)
def test_a_program_that_answers_the_order_never_counts_as_done(
    ordered: float, pause: float, behind: float, bound: float, notices: float
) -> None:
    """The node's clock is `behind` by any number of seconds. Answers within a lag that is not seen are left out."""
    lag = visible_lag(shown(bound), shown(bound + notices - behind))
    ended = shown(ordered + pause - behind)
    if pause >= (notices if lag else behind):
        assert interrupted_by(ended, [Interruption("deleted", shown(ordered))], lag) is not None


@given(ordered=moments, before=st.floats(1, 1000), bound=moments, notices=KUBELET)
def test_a_program_that_ended_a_second_before_has_ended_by_itself_where_clocks_agree(
    ordered: float, before: float, bound: float, notices: float
) -> None:
    lag = visible_lag(shown(bound), shown(bound + notices))
    assert interrupted_by(shown(ordered - before), [Interruption("deleted", shown(ordered))], lag) is None
