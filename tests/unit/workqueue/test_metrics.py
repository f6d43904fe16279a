from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tests.support.clock import FakeClock
from tests.unit.workqueue.support import RecordingMetrics, begin
from tfoperator.workqueue import DURATION_BUCKETS, DelayingQueue
from tfoperator.workqueue.queue import Queue


@pytest.fixture
def metrics() -> RecordingMetrics:
    return RecordingMetrics()


def test_readds_in_flight_count_as_one_add_and_as_depth(metrics: RecordingMetrics, clock: FakeClock) -> None:
    queue: Queue[str] = Queue(name="jobs", clock=FakeClock(), metrics=metrics)
    begin(queue, "foo")
    for _ in range(5):
        queue.add("foo")
    assert metrics.pushed["adds"].total == 2
    assert metrics.gauges["depth"]() == 1
    assert len(queue) == 0
    queue.done("foo")
    assert metrics.gauges["depth"]() == 1
    queue.get()
    assert metrics.gauges["depth"]() == 0


def test_durations_are_measured_from_add_to_get_and_from_get_to_done(
    metrics: RecordingMetrics, clock: FakeClock
) -> None:
    queue: Queue[str] = Queue(name="jobs", clock=clock, metrics=metrics)
    queue.add("foo")
    clock.advance(50e-6)
    queue.get()
    assert metrics.pushed["queue_duration"].values == [pytest.approx(50e-6)]
    clock.advance(25e-6)
    queue.done("foo")
    assert metrics.pushed["work_duration"].values == [pytest.approx(25e-6)]


def test_an_item_readded_in_flight_has_waited_since_that_add(metrics: RecordingMetrics, clock: FakeClock) -> None:
    queue: Queue[str] = Queue(name="jobs", clock=clock, metrics=metrics)
    begin(queue, "foo")
    clock.advance(1)
    queue.add("foo")
    clock.advance(2)
    queue.done("foo")
    queue.get()
    assert metrics.pushed["queue_duration"].values == [0, 2]
    assert metrics.pushed["work_duration"].values == [3]


def test_unfinished_work_is_the_sum_and_longest_the_maximum_at_the_moment_of_reading(
    metrics: RecordingMetrics, clock: FakeClock
) -> None:
    queue: Queue[str] = Queue(name="jobs", clock=clock, metrics=metrics)
    unfinished, longest = metrics.gauges["unfinished_work"], metrics.gauges["longest_running_processor"]
    assert (unfinished(), longest()) == (0, 0)
    queue.add("foo")
    queue.add("bar")
    queue.get()
    clock.advance(4)
    queue.get()
    clock.advance(1)
    assert (unfinished(), longest()) == (6, 5)
    queue.done("foo")
    assert (unfinished(), longest()) == (1, 1)
    queue.shut_down(0)
    queue.done("bar")
    assert (unfinished(), longest()) == (0, 0)


def test_every_delayed_add_counts_as_a_retry(metrics: RecordingMetrics, clock: FakeClock) -> None:
    queue: DelayingQueue[str] = DelayingQueue(name="jobs", clock=FakeClock(), metrics=metrics)
    queue.add_after("foo", 10)
    queue.add_after("foo", 20)
    queue.add_after("bar", 0)
    queue.add("baz")
    assert metrics.pushed["retries"].total == 3
    queue.shut_down(0)
    queue.add_after("foo", 10)
    assert metrics.pushed["retries"].total == 3


def test_waiting_for_more_to_come_is_no_retry(metrics: RecordingMetrics, clock: FakeClock) -> None:
    queue: DelayingQueue[str] = DelayingQueue(name="jobs", clock=FakeClock(), metrics=metrics)
    queue.add_after("foo", 10, is_retry=False)
    assert queue.delayed == 1
    assert metrics.pushed["retries"].total == 0
    queue.shut_down(0)


def test_a_queue_without_a_name_reports_nothing(metrics: RecordingMetrics, clock: FakeClock) -> None:
    queue: Queue[str] = Queue(clock=FakeClock(), metrics=metrics)
    queue.add("foo")
    assert metrics.names == set()
    assert queue.depth() == 1


def test_buckets_are_ten_powers_of_ten_from_a_microsecond() -> None:
    assert pytest.approx([10**n for n in range(-6, 4)]) == list(DURATION_BUCKETS)


def test_prometheus_metrics_fit_the_protocol_without_an_adapter_of_their_own(metrics: RecordingMetrics) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("workqueue_depth", "Depth.", ["name"], registry=registry)
    total = Counter("workqueue_adds", "Adds.", ["name"], registry=registry)
    seconds = Histogram(
        "workqueue_queue_duration_seconds", "Wait.", ["name"], registry=registry, buckets=DURATION_BUCKETS
    )

    class Provider(RecordingMetrics):
        def depth(self, name, read):
            gauge.labels(name).set_function(read)

        def adds(self, name):
            return total.labels(name)

        def queue_duration(self, name):
            return seconds.labels(name)

    queue: Queue[str] = Queue(name="jobs", metrics=Provider())
    queue.add("foo")
    queue.add("bar")
    queue.get()
    labels = {"name": "jobs"}
    assert registry.get_sample_value("workqueue_depth", labels) == 1
    assert registry.get_sample_value("workqueue_adds_total", labels) == 2
    assert registry.get_sample_value("workqueue_queue_duration_seconds_count", labels) == 1
