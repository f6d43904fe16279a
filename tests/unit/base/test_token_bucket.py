import pytest

from tests.support.clock import FakeClock
from tests.support.threads import run_at_once
from tfoperator.base.token_bucket import TokenBucket


def test_a_burst_goes_at_once_what_follows_queues_up_and_tokens_come_back_with_time_up_to_the_burst() -> None:
    clock = FakeClock()
    bucket = TokenBucket(10, 3, clock=clock)
    assert [bucket.reserve() for _ in range(6)] == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])
    clock.advance(0.4)
    assert [bucket.reserve() for _ in range(2)] == pytest.approx([0, 0.1])
    clock.advance(3600)
    assert [bucket.reserve() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_a_token_is_taken_or_refused_at_once() -> None:
    bucket = TokenBucket(0.5, 2)
    assert [bucket.take(7.0) for _ in range(4)] == [True, True, False, False]
    assert [bucket.take(now) for now in (8.0, 9.0, 9.0)] == [False, True, False]
    assert [bucket.take(3600.0) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("qps", [0, -1])
def test_a_rate_of_nothing_or_less_is_no_limit_and_one_that_would_block_for_ever_is_refused(qps: float) -> None:
    bucket = TokenBucket(qps, 0, clock=FakeClock())
    assert {bucket.reserve() for _ in range(1000)} == {0.0}
    assert all(bucket.take(0.0) for _ in range(1000))
    with pytest.raises(ValueError, match="burst must be 1 or more"):
        TokenBucket(5, 0)


def test_threads_get_a_slot_each() -> None:
    bucket = TokenBucket(100, 1, clock=FakeClock())
    slots: list[float] = []
    run_at_once(*[lambda: slots.extend(bucket.reserve() for _ in range(50))] * 8)
    assert sorted(slots) == pytest.approx([i / 100 for i in range(400)])
