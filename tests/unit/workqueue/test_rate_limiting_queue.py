from __future__ import annotations

from tests.support.clock import FakeClock
from tests.unit.workqueue.support import RecordingMetrics, drain
from tfoperator.workqueue import ExponentialFailureRateLimiter, RateLimitingQueue


def test_failures_come_back_later_and_later_until_forgotten() -> None:
    clock = FakeClock()
    metrics = RecordingMetrics()
    queue: RateLimitingQueue[str] = RateLimitingQueue(
        ExponentialFailureRateLimiter(base=1, cap=60), name="jobs", clock=clock, metrics=metrics
    )
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
    assert metrics.pushed["retries"].total == 3
    queue.forget("foo")
    assert queue.num_requeues("foo") == 0
    queue.shut_down()


def test_forget_leaves_the_items_place_in_the_queue_alone() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue(ExponentialFailureRateLimiter(0.005, 1000), clock=FakeClock())
    queue.add("foo")
    queue.forget("foo")
    assert drain(queue) == ["foo"]
    queue.shut_down()


def test_a_wait_is_never_shorter_than_the_least_that_was_asked_for_and_still_grows() -> None:
    clock = FakeClock()
    queue: RateLimitingQueue[str] = RateLimitingQueue(ExponentialFailureRateLimiter(base=1, cap=60), clock=clock)
    for wait in (3, 3, 4, 8):  # the limiter alone would say 1, 2, 4, 8
        queue.add_rate_limited("foo", at_least=3)
        clock.wait_for_deadline(clock.monotonic() + wait)
        clock.advance(wait)
        assert queue.get() == "foo"
        queue.done("foo")
    queue.shut_down()
