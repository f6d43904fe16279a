import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.reconciler.last_comparison import LastComparison
from tfoperator.reconciler.schedule import Intervals, Schedule

INTERVALS = Intervals(15, 300)


@pytest.fixture
def schedule() -> Schedule:
    """Of a job that is known since 0."""
    made = Schedule(INTERVALS)
    made.track("a", 0)
    return made


def compare(schedule: Schedule, now: float) -> frozenset[str]:
    """Compare what is due, with nothing found."""
    jobs, records = schedule.take(now, slack=7.5)
    for uid in jobs:
        schedule.compared(uid, now, matched=True)
        if uid in records:
            schedule.recorded(uid, now)
    return jobs


def looks(schedule: Schedule, until: float, since: float = 0) -> list[float]:
    return [float(now) for now in range(int(since), int(until) + 1, 15) if compare(schedule, now)]


def test_a_quiet_job_is_compared_after_15_30_60_seconds_and_so_on_up_to_every_five_minutes(schedule: Schedule) -> None:
    assert looks(schedule, 1400) == [15, 45, 105, 225, 465, 765, 1065, 1365]


def test_a_change_or_a_difference_restarts_the_backoff(schedule: Schedule) -> None:
    looks(schedule, 900)
    schedule.changed("a", 1000)
    assert (schedule.is_due("a", 1014), schedule.is_due("a", 1015)) == (False, True)
    schedule.compared("a", 1015, matched=True)
    assert schedule.due_at("a") == 1045
    schedule.compared("a", 1045, matched=False)
    assert schedule.due_at("a") == 1060


def test_a_job_that_changes_all_the_time_is_compared_nevertheless(schedule: Schedule) -> None:
    for now in range(17):
        schedule.changed("a", now)
    # It stays due until it is compared, even if a change always comes just before the next resync.
    assert schedule.due_at("a") == 15
    schedule.compared("a", 17, matched=True)
    schedule.changed("a", 18)
    assert schedule.due_at("a") == 33


def test_a_comparison_that_the_field_shows_counts_as_one_of_this_process() -> None:
    schedule = Schedule(INTERVALS)
    schedule.begin("a", 1000, LastComparison(ago=290, quiet=3000))
    schedule.recorded("a", 1005)
    assert schedule.due_at("a") == 1305
    schedule.compared("a", 1300, matched=True)
    schedule.recorded("a", 1005)  # the field is older than what this process knows
    assert schedule.due_at("a") == 1600


def test_jobs_at_the_longest_interval_are_compared_together_whenever_they_began() -> None:
    schedule = Schedule(INTERVALS)
    for number in range(50):
        schedule.track(f"job-{number}", number * 13.7)
    looks(schedule, 1500)
    assert len(looks(schedule, 4500, since=1515)) == 10


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12), st.floats(0, 1e6))
def test_whatever_a_record_says_the_next_look_comes_soon_and_not_at_once(ago: float, quiet: float, now: float) -> None:
    schedule = Schedule(INTERVALS)
    schedule.begin("a", now, LastComparison(ago, quiet))
    due = schedule.due_at("a")
    assert due is not None
    assert now + 15 <= due <= now + 300
    schedule.compared("a", due, matched=True)
    assert schedule.is_due("a", due + 300)


@pytest.mark.parametrize("looks_before", range(1, 8))
def test_a_record_tells_how_far_the_backoff_was(looks_before: int) -> None:
    old = Schedule(Intervals(15, 10_000))
    old.track("a", 0)
    now = 0.0
    for _ in range(looks_before):
        now = old.due_at("a") or 0
        old.compared("a", now, matched=True)
    new = Schedule(Intervals(15, 10_000))
    new.begin("a", now, LastComparison(ago=0, quiet=now))
    assert new.due_at("a") == old.due_at("a")


def test_slack_takes_along_what_is_nearly_due_but_starts_no_round(schedule: Schedule) -> None:
    schedule.track("b", 5)
    assert schedule.take(14, slack=10).jobs == frozenset()
    assert schedule.take(15, slack=10).jobs == {"a", "b"}


def test_a_job_that_has_ended_is_compared_and_not_recorded(schedule: Schedule) -> None:
    schedule.ended("a")
    schedule.recorded("a", 5)
    assert schedule.take(15) == (frozenset("a"), {})


def test_forgotten_and_unknown_jobs_are_never_due() -> None:
    schedule = Schedule(INTERVALS)
    for uid in "abc":
        schedule.track(uid, 0)
    schedule.forget("a")
    schedule.keep_only(["b"])
    schedule.compared("c", 0, matched=True)
    schedule.changed("c", 0)
    schedule.ended("c")
    assert schedule.take(1000).jobs == frozenset("b")
    assert len(schedule._jobs) == 1


@pytest.mark.parametrize(("base", "cap"), [(0, 10), (20, 10), (-1, 10)])
def test_impossible_intervals_are_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match="base"):
        Schedule(Intervals(base, cap))


@given(st.lists(st.tuples(st.sampled_from(["compared", "changed"]), st.floats(0, 400)), max_size=40))
def test_no_job_ever_waits_longer_than_the_cap(steps: list[tuple[str, float]]) -> None:
    schedule = Schedule(INTERVALS)
    schedule.track("a", 0)
    now = 0.0
    for what, later in steps:
        now += later
        if what == "compared":
            schedule.compared("a", now, matched=True)
        else:
            schedule.changed("a", now)
        assert schedule.is_due("a", now + 300)


class Cluster:
    """Quiet jobs whose leader dies at random moments: the fields that its API server holds, and what was done."""

    def __init__(self, jobs: int, seed: int) -> None:
        self.jobs = jobs
        self.random = random.Random(seed)
        self.fields: dict[str, float] = {}
        self.written: list[tuple[float, float]] = []  # when, and how old the record was
        self.compared: dict[str, list[float]] = {}

    def leader(self, now: float) -> Schedule:
        """Return the schedule of a new leader: it knows the fields, and that no job has changed since 0."""
        schedule = Schedule(INTERVALS)
        for number in range(self.jobs):
            uid = f"job-{number}"
            field = self.fields.get(uid)
            schedule.begin(uid, now, None if field is None else LastComparison(now - field, field))
        return schedule

    def reign(self, schedule: Schedule, began: float, died: float) -> None:
        """Let a leader work by its resyncs, from one time to another."""
        now = began
        while now < died:
            jobs, records = schedule.take(now, slack=7.5)
            for uid in jobs:
                self.compared.setdefault(uid, []).append(now)
                schedule.compared(uid, now, matched=True)
            for uid, delay in records.items():
                schedule.recorded(uid, now)
                if now + delay < died:
                    self.written.append((now + delay, now + delay - self.fields.get(uid, 0)))
                    self.fields[uid] = float(int(now))
            now += 15

    def hour(self, *, deaths: int) -> Iterator[float]:
        """Let an hour pass; yields the moment at which each leader begins."""
        moments = sorted(self.random.uniform(400, 3600) for _ in range(deaths))
        began = 0.0
        for died in [*moments, 3600.0]:
            yield began
            self.reign(self.leader(began), began, died)
            began = died + 17  # the lease runs out first

    def ages(self, since: float) -> list[float]:
        """Return how old records were when they were renewed, or at the end of the hour."""
        return [age for when, age in self.written if when > since] + [3600 - field for field in self.fields.values()]


@pytest.mark.parametrize(("jobs", "oldest", "mean"), [(1, 315, 310), (1500, 316, 310), (10_000, 2015, 2010)])
def test_records_are_five_minutes_and_a_resync_old_at_most_or_age_evenly(jobs: int, oldest: float, mean: float) -> None:
    cluster = Cluster(jobs, seed=0)
    assert list(cluster.hour(deaths=0)) == [0]
    assert len(cluster.fields) == jobs
    ages = cluster.ages(since=jobs / 5 + 15)
    assert max(ages) <= oldest
    assert sum(ages) / len(ages) <= mean
    for begin in range(0, 3600, 60):
        assert sum(begin <= when < begin + 60 for when, _ in cluster.written) <= 60 * 5 + 75


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("jobs", [60, 1500])
def test_a_leader_that_dies_leaves_no_interval_to_begin_anew_and_none_out(jobs: int, seed: int) -> None:
    cluster = Cluster(jobs, seed)
    begins = list(cluster.hour(deaths=3))
    assert max(cluster.ages(since=jobs / 5 + 15)) <= 315 + 17 + 15
    for moments in cluster.compared.values():
        assert moments[0] <= 15
        gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
        assert max(gaps) <= 315 + 17 + 15
        for began in begins[1:]:
            # A backoff that began anew would compare four times.
            assert began < 480 or sum(began <= moment < began + 240 for moment in moments) <= 3
