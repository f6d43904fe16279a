import math

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import run_at_once
from tests.unit.workqueue.support import ShownMetrics, drain
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.workqueue import RateLimitingQueue


def test_failures_come_back_later_and_later_until_forgotten() -> None:
    clock = FakeClock()
    metrics = ShownMetrics()
    queue: RateLimitingQueue[str] = RateLimitingQueue(base=1, cap=60, name="jobs", clock=clock, metrics=metrics)
    for wait in (1, 2, 4):
        queue.add_rate_limited("foo")
        due = clock.monotonic() + wait
        clock.wait_for_deadline(due)
        clock.advance(wait / 2)
        clock.wait_for_deadline(due)
        assert len(queue) == 0
        clock.advance(wait / 2)
        assert queue.get() == "foo"
        queue.done("foo")
    assert queue.num_requeues("foo") == 3
    assert metrics.value("retries_total") == 3
    queue.forget("foo")
    assert queue.num_requeues("foo") == 0
    queue.shut_down(0)


def test_forget_leaves_the_items_place_in_the_queue_alone() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue(base=0.005, cap=1000, clock=FakeClock())
    queue.add("foo")
    queue.forget("foo")
    assert drain(queue) == ["foo"]
    queue.shut_down(0)


def test_a_wait_is_never_shorter_than_the_least_that_was_asked_for_and_still_grows() -> None:
    clock = FakeClock()
    queue: RateLimitingQueue[str] = RateLimitingQueue(base=1, cap=60, clock=clock)
    for wait in (3, 3, 4, 8):  # the failures alone would give 1, 2, 4, 8
        queue.add_rate_limited("foo", at_least=3)
        clock.wait_for_deadline(clock.monotonic() + wait)
        clock.advance(wait)
        assert queue.get() == "foo"
        queue.done("foo")
    queue.shut_down(0)


class Waits(RateLimitingQueue[str]):
    """Says how long an item would wait."""

    def add_after(self, item: str, seconds: float, *, is_retry: bool = True) -> None:
        self.last = seconds

    def after_failure(self, item: str) -> float:
        self.add_rate_limited(item)
        return self.last


def test_items_fail_independently_and_are_forgotten_independently() -> None:
    queue = Waits(base=0.001, cap=1)
    assert [queue.after_failure("one") for _ in range(3)] == pytest.approx([0.001, 0.002, 0.004])
    assert queue.after_failure("two") == pytest.approx(0.001)
    queue.forget("one")
    assert queue.after_failure("one") == pytest.approx(0.001)
    assert queue.num_requeues("two") == 1
    queue.forget("never seen")


@pytest.mark.parametrize(("base", "cap"), [(0.001, 1000.0), (1.0, 1e9), (1e300, math.inf)])
def test_the_wait_is_capped_and_never_overflows(base: float, cap: float) -> None:
    queue = Waits(base=base, cap=cap)
    waits = [queue.after_failure("one") for _ in range(1100)]
    assert waits == sorted(waits)
    assert waits[-1] == cap


@pytest.mark.parametrize(("base", "cap"), [(0, 1), (-1, 1), (2, 1)])
def test_a_nonsensical_backoff_is_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match="base"):
        Waits(base=base, cap=cap)


def test_every_failure_takes_a_token_also_where_its_count_decides_the_wait() -> None:
    clock = FakeClock()
    queue = Waits(base=0.4, cap=100, bucket=TokenBucket(1, 1, clock=clock))
    assert [queue.after_failure("x") for _ in range(3)] == pytest.approx([0.4, 1.0, 2.0])
    clock.advance(10)
    assert queue.after_failure("x") == pytest.approx(3.2)
    assert queue.after_failure("y") == pytest.approx(1)


def test_failures_are_counted_exactly_from_many_threads() -> None:
    queue = Waits(base=0.005, cap=1000)
    run_at_once(*[lambda: [queue.add_rate_limited("x") for _ in range(200)]] * 8)
    assert queue.num_requeues("x") == 1600
