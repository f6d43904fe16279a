"""Prometheus metrics of queues, with the names that dashboards for Go controllers expect.

Gauges are *pulled*: a queue provides a function that is called at each scrape. A pulled gauge is exact when it is
read. It needs no thread that refreshes it twice a second, and no value for the time after that thread has
stopped.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from tfoperator.base.metrics import Makers

DURATION_BUCKETS: tuple[float, ...] = tuple(10.0**exponent for exponent in range(-6, 4))
"""Upper bounds in seconds for both duration histograms: ten buckets from 1 microsecond, each ten times the last.

The bounds of client-go's component-base begin at 10 ns, too short for any step in Python, and end at 10 s. With them
the alert about keys that wait for more than 10 s could never fire.
"""


class QueueMetrics:
    """The `workqueue_` metrics of all queues; shown if there is a registry. Thread-safe.

    `adds` are accepted items: an add of an item that waits already does not count. `depth` counts waiting items,
    including items that were added again while being processed. `retries` are delayed adds, including rate-limited
    adds. If `unfinished` grows steadily, workers are stuck. The queue updates metrics only while it does not hold its
    lock. The labels `name` and `controller` have the same value, as in controller-runtime.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        make, label, buckets = Makers(registry), ("name", "controller"), DURATION_BUCKETS
        self.depth = make.gauge("workqueue_depth", "Items that wait.", label)
        self.adds = make.counter("workqueue_adds", "Items added.", label)
        self.waits = make.histogram(
            "workqueue_queue_duration_seconds", "Time that an item waited in the queue.", label, buckets=buckets
        )
        self.works = make.histogram(
            "workqueue_work_duration_seconds", "Time that the work on an item took.", label, buckets=buckets
        )
        self.unfinished = make.gauge(
            "workqueue_unfinished_work_seconds", "Total time for which the current items have been in work.", label
        )
        self.longest = make.gauge(
            "workqueue_longest_running_processor_seconds",
            "Time for which the oldest current item has been in work.",
            label,
        )
        self.retries = make.counter("workqueue_retries", "Delayed adds.", label)


NOT_SHOWN = QueueMetrics()
"""The metrics of queues whose metrics are not shown."""
