from __future__ import annotations

import math

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import run_at_once
from tfoperator.workqueue import (
    BucketRateLimiter,
    ExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)


def test_each_failure_of_an_item_doubles_its_wait() -> None:
    limiter: ExponentialFailureRateLimiter[str] = ExponentialFailureRateLimiter(base=0.001, cap=1)
    assert [limiter.when("one") for _ in range(5)] == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.016])
    assert limiter.num_requeues("one") == 5


def test_items_fail_independently_and_are_forgotten_independently() -> None:
    limiter: ExponentialFailureRateLimiter[str] = ExponentialFailureRateLimiter(base=0.001, cap=1)
    for _ in range(3):
        limiter.when("one")
    assert limiter.when("two") == pytest.approx(0.001)
    limiter.forget("one")
    assert limiter.num_requeues("one") == 0
    assert limiter.when("one") == pytest.approx(0.001)
    assert limiter.num_requeues("two") == 1
    limiter.forget("never seen")


@pytest.mark.parametrize(("base", "cap"), [(0.001, 1000.0), (1.0, 1e9), (1e300, math.inf)])
def test_the_wait_is_capped_and_never_overflows(base: float, cap: float) -> None:
    limiter: ExponentialFailureRateLimiter[str] = ExponentialFailureRateLimiter(base=base, cap=cap)
    waits = [limiter.when("one") for _ in range(1100)]
    assert waits == sorted(waits)
    assert waits[-1] == cap


@pytest.mark.parametrize(("base", "cap"), [(0, 1), (-1, 1), (2, 1)])
def test_a_nonsensical_backoff_is_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match="base"):
        ExponentialFailureRateLimiter(base=base, cap=cap)


def test_the_bucket_reserves_future_tokens_after_its_burst() -> None:
    clock = FakeClock()
    limiter = BucketRateLimiter(qps=10, burst=100, clock=clock)
    assert [limiter.when("x") for _ in range(100)] == [0] * 100
    assert [limiter.when("x") for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    clock.advance(0.2)
    assert limiter.when("x") == pytest.approx(0.2)


def test_the_bucket_fills_up_to_its_burst_and_no_further() -> None:
    clock = FakeClock()
    limiter = BucketRateLimiter(qps=10, burst=2, clock=clock)
    clock.advance(1000)
    assert [limiter.when("x") for _ in range(3)] == pytest.approx([0, 0, 0.1])


def test_the_bucket_knows_no_items() -> None:
    limiter = BucketRateLimiter(clock=FakeClock())
    limiter.when("x")
    limiter.forget("x")
    assert limiter.num_requeues("x") == 0


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_bucket_that_never_fills_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="qps"):
        BucketRateLimiter(qps=qps, burst=burst)


def test_the_longest_wait_and_the_largest_count_of_several_limiters_hold() -> None:
    clock = FakeClock()
    bucket = BucketRateLimiter(qps=1, burst=1, clock=clock)
    exponential: ExponentialFailureRateLimiter[str] = ExponentialFailureRateLimiter(base=0.4, cap=100)
    limiter = MaxOfRateLimiter(exponential, bucket)
    assert [limiter.when("x") for _ in range(3)] == pytest.approx([0.4, 1.0, 2.0])
    assert limiter.num_requeues("x") == 3
    clock.advance(10)
    # Every call takes a token, also where another limiter decides the wait.
    assert limiter.when("x") == pytest.approx(3.2)
    assert bucket.when("y") == pytest.approx(1)
    limiter.forget("x")
    assert limiter.num_requeues("x") == 0


def test_no_limiter_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MaxOfRateLimiter()


def test_failures_are_counted_exactly_from_many_threads() -> None:
    limiter: ExponentialFailureRateLimiter[str] = ExponentialFailureRateLimiter(0.005, 1000)
    run_at_once(*[lambda: [limiter.when("x") for _ in range(200)]] * 8)
    assert limiter.num_requeues("x") == 1600
