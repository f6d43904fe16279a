from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.reconciler import Schedule


def looks(schedule: Schedule, uid: str, until: float, step: float = 15.0) -> list[float]:
    """When a quiet job is looked at, if time advances in steps."""
    found, now = [], 0.0
    while now <= until:
        if uid in schedule.due(now):
            found.append(now)
            schedule.checked(uid, now)
        now += step
    return found


def test_a_quiet_job_is_looked_at_after_15_30_60_seconds_and_so_on_up_to_every_five_minutes() -> None:
    schedule = Schedule()
    schedule.track("a", 0)
    assert looks(schedule, "a", 1500) == [15, 45, 105, 225, 465, 600, 900, 1200, 1500]


def test_a_change_begins_anew() -> None:
    schedule = Schedule()
    schedule.track("a", 0)
    looks(schedule, "a", 900)
    schedule.reset("a", 1000)
    assert not schedule.is_due("a", 1014)
    assert schedule.is_due("a", 1015)
    schedule.checked("a", 1015)
    assert schedule.is_due("a", 1045)


def test_a_job_that_changes_all_the_time_is_looked_at_even_so() -> None:
    schedule = Schedule()
    schedule.track("a", 0)
    for now in range(16):
        schedule.reset("a", now)
    assert schedule.is_due("a", 15)
    # And stays due until it was, even if a change always comes just before the next resync.
    schedule.reset("a", 16)
    assert schedule.is_due("a", 16)
    schedule.again("a", 17)
    assert not schedule.is_due("a", 31)
    assert schedule.is_due("a", 32)


def test_jobs_at_the_longest_interval_are_due_together_whenever_they_began() -> None:
    schedule = Schedule()
    for number in range(50):
        schedule.track(f"job-{number}", number * 13.7)
    now = 0.0
    rounds: list[float] = []
    while now < 4000:
        due = schedule.due(now, slack=7.5)
        if due:
            rounds.append(now)
        for uid in due:
            schedule.checked(uid, now)
        now += 15
    assert [moment for moment in rounds if moment > 2000] == [2100, 2400, 2700, 3000, 3300, 3600, 3900]


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12), st.floats(0, 1e6))
def test_whatever_a_record_says_the_next_look_comes_neither_at_once_nor_later_than_the_cap(
    ago: float, quiet: float, now: float
) -> None:
    schedule = Schedule()
    schedule.resume("a", now, ago=ago, quiet=quiet)
    due = schedule.due_at("a")
    assert due is not None
    assert now + 15 <= due <= now + 300
    schedule.checked("a", due)
    assert schedule.is_due("a", due + 300)


@pytest.mark.parametrize("looks_before", range(1, 8))
def test_a_record_tells_how_far_the_backoff_was(looks_before: int) -> None:
    old = Schedule(cap=10_000)
    old.track("a", 0)
    now = 0.0
    for _ in range(looks_before):
        now = old.due_at("a") or 0
        old.checked("a", now)
    new = Schedule(cap=10_000)
    new.resume("a", now, ago=0, quiet=now)
    assert new.due_at("a") == old.due_at("a")
    new.checked("a", new.due_at("a") or 0)
    old.checked("a", old.due_at("a") or 0)
    assert new.due_at("a") == old.due_at("a")


def test_slack_takes_along_what_is_nearly_due_but_starts_no_round() -> None:
    schedule = Schedule()
    schedule.track("a", 0)
    schedule.track("b", 5)
    assert schedule.due(14, slack=10) == []
    assert schedule.due(15, slack=10) == ["a", "b"]


def test_forgotten_and_unknown_jobs_are_never_due() -> None:
    schedule = Schedule()
    for uid in "abc":
        schedule.track(uid, 0)
    schedule.forget("a")
    schedule.keep_only(["b"])
    schedule.checked("c", 0)
    schedule.reset("c", 0)
    assert schedule.due(1000) == ["b"]
    assert len(schedule) == 1


@pytest.mark.parametrize(("base", "cap"), [(0, 10), (20, 10), (-1, 10)])
def test_impossible_intervals_are_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match="base"):
        Schedule(base=base, cap=cap)


@given(st.lists(st.tuples(st.sampled_from(["check", "reset"]), st.floats(0, 400)), max_size=40))
def test_no_job_ever_waits_longer_than_the_cap(steps: list[tuple[str, float]]) -> None:
    schedule = Schedule()
    schedule.track("a", 0)
    now = 0.0
    for what, later in steps:
        now += later
        (schedule.checked if what == "check" else schedule.reset)("a", now)
        assert schedule.is_due("a", now + 300)
