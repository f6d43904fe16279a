from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tfoperator.controller.execute.call_pool import CallPool


@pytest.fixture
def pool() -> Iterator[CallPool]:
    pool = CallPool(8)
    yield pool
    pool.close()


class Meter:
    """Calls that report how many of them run at the same time."""

    def __init__(self, size: int) -> None:
        self.highest = 0
        self._running = 0
        self._lock = threading.Lock()
        self._together = threading.Barrier(size)

    def call(self) -> bool:
        with self._lock:
            self._running += 1
            self.highest = max(self.highest, self._running)
        self._together.wait(60)
        with self._lock:
            self._running -= 1
        return True


def returning(value: int) -> Callable[[], int]:
    return lambda: value


def test_results_come_in_the_order_of_the_calls(pool: CallPool) -> None:
    assert pool.all([returning(n) for n in range(100)]) == list(range(100))


def test_no_calls_are_no_work(pool: CallPool) -> None:
    assert pool.all([]) == []
    assert pool.in_growing_batches([], pool.all, ok=bool).done == []


def test_a_single_call_runs_on_the_callers_own_thread(pool: CallPool) -> None:
    assert pool.all([threading.get_ident]) == [threading.get_ident()]


def test_batches_double_until_one_has_a_failure(pool: CallPool) -> None:
    for failing, expected in ((0, 1), (1, 3), (2, 3), (5, 7), (20, 31), (70, 95)):
        results = pool.in_growing_batches(
            [returning(n) for n in range(100)], pool.all, ok=lambda n, bad=failing: n != bad
        )
        assert len(results.done) == expected
        assert results.skipped == range(expected, 100)


def test_full_batches_keep_the_whole_pool_busy(pool: CallPool) -> None:
    calls = [returning(n) for n in range(15)]
    meter = Meter(8)
    results = pool.in_growing_batches([*calls[:7], *[meter.call] * 8], pool.all, ok=lambda _: True)
    assert meter.highest == 8
    assert len(results.done) == 15


def test_an_exception_is_raised_after_every_call_has_ended(pool: CallPool) -> None:
    ended = []

    def fail() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        pool.all([fail, *[lambda: ended.append(1)] * 5])
    assert len(ended) == 5


def test_a_pool_needs_room_for_one() -> None:
    with pytest.raises(ValueError, match="parallelism"):
        CallPool(0)
