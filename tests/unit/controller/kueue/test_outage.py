"""Whose turn it is to ask Kueue while Kueue does not answer."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import api_error
from tests.unit.controller.builders import make_job
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.kueue.outage import Outage, is_outage
from tfoperator.kube.protocol.errors import TransportError

REFUSED = api_error(500, message="failed calling webhook")


class Line:
    """Jobs, the oldest first, and the syncs that they get: at what time, by the name of the job."""

    def __init__(self, count: int) -> None:
        self.clock = FakeClock()
        self.syncs: list[tuple[float, str]] = []
        self.outage = Outage(self.clock, self._enqueue)
        self.jobs = [self._job(number) for number in range(count)]

    def _job(self, number: int) -> TFJob:
        created = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
        # By name the other way round: the time decides.
        job = make_job({"Worker": 1}, name=f"job-{9 - number}")
        metadata = msgspec.structs.replace(job.metadata, creation_timestamp=created)
        return msgspec.structs.replace(job, metadata=metadata)

    def _enqueue(self, key: str, seconds: float) -> None:
        self.syncs.append((self.clock.monotonic() + seconds, key.partition("/")[2]))

    def begin(self) -> None:
        """The writes of the first two jobs fail."""
        for job in self.jobs[:2]:
            assert self.outage.may_write(job)
            self.outage.failed(job, REFUSED)

    def attempt(self, *, fails: bool) -> str:
        """Let time pass until the next attempt, make it, and return the name of the job that makes it."""
        when, name = self.syncs[-1]
        self.clock.advance(when - self.clock.monotonic() + 0.001)  # a timer is never early
        (job,) = [job for job in self.jobs if job.metadata.name == name]
        assert [other.metadata.name for other in self.jobs if self.outage.may_write(other)] == [name]
        self.syncs.clear()
        if fails:
            self.outage.failed(job, REFUSED)
        else:
            self.outage.answered(job)
        return name


def test_an_outage_begins_when_two_jobs_fail_in_a_row() -> None:
    line = Line(3)
    for _ in range(5):
        line.outage.failed(line.jobs[0], REFUSED)
    assert not line.outage.is_on, "that job may have a reason of its own"
    assert [round(when, 1) for when, _ in line.syncs] == [0.2, 0.4, 0.8, 1.6, 3.2]
    line.outage.answered(line.jobs[2])
    line.outage.failed(line.jobs[1], REFUSED)
    assert not line.outage.is_on
    line.outage.failed(line.jobs[2], REFUSED)
    assert line.outage.is_on
    assert line.syncs[-1:] == [(0.2, "job-8")], "the oldest of those that wait makes the next attempt"


def test_a_single_job_that_fails_waits_longer_and_longer_although_other_jobs_succeed() -> None:
    line = Line(2)
    spoilt, healthy = line.jobs
    for _ in range(7):
        line.outage.failed(spoilt, REFUSED)
        line.outage.answered(healthy)
    assert [round(when, 1) for when, _ in line.syncs] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert line.outage.is_shown(spoilt)
    line.outage.answered(spoilt)
    assert not line.outage.is_shown(spoilt)


def test_one_job_at_a_time_asks_ever_more_seldom_and_the_oldest_every_other_time() -> None:
    line = Line(4)
    line.begin()
    made = []
    while line.clock.monotonic() < 30:
        made.append((line.syncs[-1][0], line.attempt(fails=True)))
    assert [name for _, name in made[:6]] == ["job-9", "job-8", "job-9", "job-7", "job-9", "job-6"]
    pauses = [round(after - before, 1) for (before, _), (after, _) in pairwise(made)]
    assert pauses[:6] == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_when_kueue_answers_all_that_wait_are_looked_at_in_the_order_of_their_creation() -> None:
    line = Line(4)
    line.begin()
    line.attempt(fails=True)
    line.clock.advance(60)
    line.attempt(fails=False)
    assert not line.outage.is_on
    assert line.syncs == [(line.clock.monotonic(), f"job-{number}") for number in (9, 8, 7, 6)]
    assert all(map(line.outage.may_write, line.jobs))


def test_a_job_that_fails_for_a_reason_of_its_own_comes_back_ever_later_and_delays_no_other() -> None:
    line = Line(3)
    spoilt, other, healthy = line.jobs
    absences = []
    for _ in range(9):
        line.outage.failed(spoilt, REFUSED)
        line.outage.failed(other, REFUSED)
        line.outage.answered(healthy)
        line.outage.answered(other)
        now = line.clock.monotonic()
        absences += [when - now for when, name in line.syncs if name == spoilt.metadata.name][-1:]
        line.syncs.clear()
    assert absences == [0, 5, 10, 20, 40, 80, 160, 300, 300]
    line.outage.answered(spoilt)
    line.begin()
    line.attempt(fails=False)
    assert line.syncs[0][0] == line.clock.monotonic()


def test_an_outage_ends_with_the_first_success_even_if_the_jobs_that_failed_are_gone() -> None:
    line = Line(4)
    line.begin()
    assert not any(map(line.outage.may_write, line.jobs[2:]))
    for job in line.jobs[:2]:
        line.outage.leave(job.metadata.key)
    line.attempt(fails=False)
    assert not line.outage.is_on
    assert {"job-7", "job-6"} <= {name for _, name in line.syncs}


def test_a_job_that_leaves_gives_its_turn_away() -> None:
    line = Line(3)
    line.begin()
    list(map(line.outage.may_write, line.jobs))
    line.syncs.clear()
    line.outage.leave("ns/job-7")
    assert line.syncs == [], "it was not its turn"
    line.outage.leave("ns/job-9")
    assert line.syncs[-1] == (0.2, "job-8")
    line.outage.leave("ns/job-8")
    assert not line.outage.is_on


def test_a_job_in_turn_that_comes_early_comes_again_when_its_attempt_is_due() -> None:
    line = Line(2)
    line.begin()
    line.clock.advance(0.05)
    line.syncs.clear()
    assert not line.outage.may_write(line.jobs[0])
    assert [(round(when, 3), name) for when, name in line.syncs] == [(0.2, "job-9")]


def test_an_attempt_that_is_overdue_is_made_by_another_job_and_by_one_only() -> None:
    line = Line(4)
    line.begin()
    line.clock.advance(10.1)
    assert not line.outage.may_write(line.jobs[2])
    line.clock.advance(0.2)
    assert line.outage.may_write(line.jobs[2])
    line.outage.failed(line.jobs[2], REFUSED)
    assert not any(map(line.outage.may_write, line.jobs))


@pytest.mark.parametrize(("code", "is_one"), [(500, True), (504, True), (429, True), (403, False), (422, False)])
def test_a_refusal_by_rule_is_no_outage(code: int, is_one: bool) -> None:
    assert is_outage(api_error(code)) == is_one


def test_a_connection_that_breaks_may_be_an_outage() -> None:
    assert is_outage(TransportError("the connection broke"))
