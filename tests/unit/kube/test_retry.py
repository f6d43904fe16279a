from __future__ import annotations

import random

import pytest

from tests.support.clock import FakeClock
from tfoperator.kube.errors import AlreadyExistsError, ConflictError, NotFoundError, Status
from tfoperator.kube.retry import Backoff, retry_on_conflict


def conflict(number: int) -> ConflictError:
    return ConflictError(Status(code=409, reason="Conflict", message=f"conflict {number}"))


def test_it_tries_again_until_there_is_no_conflict() -> None:
    calls: list[int] = []
    pauses: list[float] = []

    def update() -> str:
        calls.append(len(calls))
        if len(calls) < 4:
            raise conflict(len(calls))
        return "done"

    assert retry_on_conflict(update, sleep=pauses.append) == "done"
    assert len(calls) == 4
    assert len(pauses) == 3
    assert all(0.010 <= pause <= 0.011 for pause in pauses)


def test_the_last_conflict_is_raised_after_five_tries() -> None:
    calls: list[int] = []

    def update() -> None:
        calls.append(1)
        raise conflict(len(calls))

    with pytest.raises(ConflictError, match="conflict 5"):
        retry_on_conflict(update, sleep=lambda _: None)
    assert len(calls) == 5


@pytest.mark.parametrize("error", [NotFoundError(Status(code=404)), AlreadyExistsError(Status(code=409))])
def test_other_errors_end_it_at_once(error: Exception) -> None:
    calls: list[int] = []

    def update() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        retry_on_conflict(update)
    assert len(calls) == 1


class Extreme(random.Random):
    """Always draws the same number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(cap=30, clock=FakeClock(), rng=Extreme(0))
    assert [backoff.next() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


def test_jitter_stretches_a_delay_up_to_twice_and_never_shortens_it() -> None:
    assert Backoff(cap=30, clock=FakeClock(), rng=Extreme(0.75)).next() == 0.8 * 1.75
    rng = random.Random(1)
    delays = [Backoff(cap=30, clock=FakeClock(), rng=rng).next() for _ in range(200)]
    assert 0.8 <= min(delays) < 0.9
    assert 1.5 < max(delays) <= 1.6


def test_two_quiet_minutes_start_it_over() -> None:
    clock = FakeClock()
    backoff = Backoff(cap=30, clock=clock, rng=Extreme(0))
    assert [backoff.next() for _ in range(3)] == [0.8, 1.6, 3.2]
    clock.advance(119)
    assert backoff.next() == 6.4
    clock.advance(121)
    assert backoff.next() == 0.8


def test_what_is_forgotten_starts_over_at_once() -> None:
    backoff = Backoff(cap=30, clock=FakeClock(), rng=Extreme(0))
    assert [backoff.next() for _ in range(3)] == [0.8, 1.6, 3.2]
    backoff.forget()
    assert [backoff.next() for _ in range(2)] == [0.8, 1.6]


def test_it_never_overflows() -> None:
    backoff = Backoff(cap=30, clock=FakeClock(), rng=Extreme(0))
    for _ in range(5000):
        last = backoff.next()
    assert last == 30
