import pytest

from tests.support.clock import FakeClock
from tests.unit.workqueue.support import ShownMetrics, begin
from tfoperator.workqueue import DelayingQueue
from tfoperator.workqueue.metrics import DURATION_BUCKETS
from tfoperator.workqueue.queue import Queue


@pytest.fixture
def metrics() -> ShownMetrics:
    return ShownMetrics()


def test_readds_in_flight_count_as_one_add_and_as_depth(metrics: ShownMetrics) -> None:
    queue: Queue[str] = Queue(name="jobs", clock=FakeClock(), metrics=metrics)
    begin(queue, "foo")
    for _ in range(5):
        queue.add("foo")
    assert metrics.value("adds_total") == 2
    assert metrics.value("depth") == 1
    assert len(queue) == 0
    queue.done("foo")
    assert metrics.value("depth") == 1
    queue.get()
    assert metrics.value("depth") == 0


def test_durations_are_measured_from_add_to_get_and_from_get_to_done(metrics: ShownMetrics, clock: FakeClock) -> None:
    queue: Queue[str] = Queue(name="jobs", clock=clock, metrics=metrics)
    queue.add("foo")
    clock.advance(50e-6)
    queue.get()
    assert metrics.durations("queue") == (1, pytest.approx(50e-6))
    clock.advance(1)
    queue.add("foo")  # while it is in processing: it waits from now on
    clock.advance(2)
    queue.done("foo")
    queue.get()
    assert metrics.durations("queue") == (2, pytest.approx(2 + 50e-6))
    assert metrics.durations("work") == (1, pytest.approx(3))
    assert pytest.approx([10**n for n in range(-6, 4)]) == list(DURATION_BUCKETS)


def test_unfinished_work_is_the_sum_and_longest_the_maximum_at_the_moment_of_reading(
    metrics: ShownMetrics, clock: FakeClock
) -> None:
    queue: Queue[str] = Queue(name="jobs", clock=clock, metrics=metrics)

    def times() -> tuple[float | None, float | None]:
        return metrics.value("unfinished_work_seconds"), metrics.value("longest_running_processor_seconds")

    assert times() == (0, 0)
    queue.add("foo")
    queue.add("bar")
    queue.get()
    clock.advance(4)
    queue.get()
    clock.advance(1)
    assert times() == (6, 5)
    queue.done("foo")
    assert times() == (1, 1)
    queue.shut_down(0)
    queue.done("bar")
    assert times() == (0, 0)


def test_every_delayed_add_counts_as_a_retry_but_for_a_wait_for_more_to_come(metrics: ShownMetrics) -> None:
    queue: DelayingQueue[str] = DelayingQueue(name="jobs", clock=FakeClock(), metrics=metrics)
    queue.add_after("foo", 10)
    queue.add_after("foo", 20)
    queue.add_after("bar", 0)
    queue.add("baz")
    queue.add_after("more to come", 10, is_retry=False)
    assert queue.delayed == 2
    assert metrics.value("retries_total") == 3
    queue.shut_down(0)
    queue.add_after("foo", 10)
    assert metrics.value("retries_total") == 3


def test_a_queue_without_a_name_reports_nothing(metrics: ShownMetrics) -> None:
    queue: Queue[str] = Queue(clock=FakeClock(), metrics=metrics)
    queue.add("foo")
    assert [sample for family in metrics.registry.collect() for sample in family.samples] == []
    assert queue.depth() == 1
