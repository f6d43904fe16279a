"""Prometheus metrics of queues, by their names: those that dashboards for Go controllers expect.

Gauges are *pulled*: a queue gives a function to call when it is scraped. A pulled gauge is exact at the moment it is
read, and it needs neither a thread that refreshes it twice a second nor a value for the time after that thread has
stopped.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from tfoperator.base.metrics import Makers

DURATION_BUCKETS: tuple[float, ...] = tuple(10.0**exponent for exponent in range(-6, 4))
"""Upper bounds in seconds for both duration histograms: ten buckets from 1 microsecond, each ten times the last.

Those of client-go's component-base begin at 10 ns, which no step in Python takes, and end at 10 s: with them the alert
about keys that wait for more than 10 s could never fire.
"""


class QueueMetrics:
    """The `workqueue_` metrics of all queues; shown if there is a registry. Thread-safe.

    `adds` are accepted items: an add that found its item waiting already does not count. `depth` counts waiting items,
    those marked again while being processed included. `retries` are delayed adds, rate-limited ones included. Growing
    steadily, `unfinished` shows stuck workers. No metric is updated while a queue's lock is held.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        make, label, buckets = Makers(registry), ("name",), DURATION_BUCKETS
        self.depth = make.gauge("workqueue_depth", "Items that wait.", label)
        self.adds = make.counter("workqueue_adds", "Items added.", label)
        self.waits = make.histogram("workqueue_queue_duration_seconds", "From add to get.", label, buckets=buckets)
        self.works = make.histogram("workqueue_work_duration_seconds", "From get to done.", label, buckets=buckets)
        self.unfinished = make.gauge("workqueue_unfinished_work_seconds", "Time spent on items in work, summed.", label)
        self.longest = make.gauge(
            "workqueue_longest_running_processor_seconds", "Time spent on the oldest item.", label
        )
        self.retries = make.counter("workqueue_retries", "Delayed adds.", label)


NOT_SHOWN = QueueMetrics()
"""What queues count that nothing shows."""
