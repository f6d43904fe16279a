from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tfoperator.base.clock import StopSignal, SystemClock
from tfoperator.launcher import LaunchCancelled, LaunchContext, RetryableFailure, RetryPolicy


@given(st.integers(1, 1000), st.none() | st.floats(0, 1e9), st.randoms(use_true_random=False))
def test_a_delay_grows_is_capped_and_honours_the_server(failed: int, wish: float | None, random: Random) -> None:
    policy = RetryPolicy(initial=5, maximum=300, jitter=0.5, longest_retry_after=600)
    delay = policy.delay(failed, wish, random)

    full = min(300, 5 * 2 ** min(failed - 1, 64))
    wanted = min(wish or 0, 600)
    assert max(full / 2, wanted) <= delay <= max(full, wanted)


class Fails:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def run(work: Fails, attempts: int = 3, clock: FakeClock | None = None, cancelled: StopSignal | None = None) -> str:
    return LaunchContext(clock=clock or SystemClock(), random=Random(1)).repeated(
        work,
        RetryPolicy(attempts=attempts, initial=0 if clock is None else 10, jitter=0),
        lambda error: isinstance(error, RetryableFailure),
        cancelled=cancelled or StopSignal(),
        what="work",
    )


def test_it_is_repeated_until_it_succeeds_or_the_tries_are_over() -> None:
    assert run(Fails(RetryableFailure("1"), RetryableFailure("2"))) == "done"
    with pytest.raises(RetryableFailure, match="3"):
        run(Fails(*[RetryableFailure(str(n)) for n in (1, 2, 3)]))
    once = Fails(ValueError("permanent"))
    with pytest.raises(ValueError, match="permanent"):
        run(once)
    assert once.calls == 1


def test_it_waits_as_long_as_it_should_and_a_cancellation_ends_that() -> None:
    clock, cancelled = FakeClock(), StopSignal()
    launch = Fails(RetryableFailure("x", 40), RetryableFailure("y"))
    running = InThread(lambda: run(launch, 3, clock, cancelled))
    clock.wait_for_deadline(40.0)
    clock.advance(40)
    clock.wait_for_deadline(60.0)
    cancelled.set()
    with pytest.raises(LaunchCancelled):
        running.result()
