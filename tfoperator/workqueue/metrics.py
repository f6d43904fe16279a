"""Prometheus metrics of queues. They have the names that dashboards for Go controllers expect.

Gauges are *pulled*: a queue provides a function, which is called at each scrape. So the value of a gauge is exact when
it is read. client-go refreshes some gauges twice a second in a thread, and would keep old values if the thread stopped.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from tfoperator.base.metrics import Makers

DURATION_BUCKETS: tuple[float, ...] = tuple(10.0**exponent for exponent in range(-6, 4))
"""The upper bounds, in seconds, of the buckets of `workqueue_queue_duration_seconds` and
`workqueue_work_duration_seconds`. There are ten buckets. The first bound is 1 microsecond, and each bound is ten times
the bound before.

The bounds of client-go's component-base begin at 10 ns, which is too short for any step in Python, and end at 10 s.
With client-go's bounds, the alert about keys that wait for more than 10 s could never fire.
"""


class QueueMetrics:
    """The `workqueue_` metrics of all queues. They are shown only if there is a registry. Thread-safe.

    `adds` counts the items that were accepted. If an item already waits, another add does not count. `depth` is the
    number of items that wait. It includes items that were added again while they are being processed. `retries` counts
    delayed adds, including rate-limited adds. If `unfinished` grows steadily, workers are stuck. A queue updates
    metrics only while it does not hold its lock. The labels `name` and `controller` have the same value, as in
    controller-runtime.
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
"""The metrics for queues that show no metrics."""
