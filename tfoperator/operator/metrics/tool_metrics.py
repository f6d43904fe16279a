"""Prometheus metrics of the tools: workqueue and informers. Names that dashboards for Go controllers know.

Each class overrides the hooks of one package (they say what each means), so that no package depends on
prometheus_client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tfoperator import informers, workqueue


class Makers:
    """Makes metrics in one registry; what they take is what those of prometheus_client take."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.counter = partial(Counter, registry=registry)
        self.gauge = partial(Gauge, registry=registry)
        self.histogram = partial(Histogram, registry=registry)


class QueueMetrics(workqueue.MetricsProvider):
    """The `workqueue_` metrics, labelled by the queue's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        label = ("name",)
        buckets = workqueue.DURATION_BUCKETS
        self._depth = make.gauge("workqueue_depth", "Items that wait.", label)
        self._adds = make.counter("workqueue_adds", "Items added.", label)
        self._waits = make.histogram("workqueue_queue_duration_seconds", "From add to get.", label, buckets=buckets)
        self._works = make.histogram("workqueue_work_duration_seconds", "From get to done.", label, buckets=buckets)
        self._unfinished = make.gauge(
            "workqueue_unfinished_work_seconds", "Time spent on items in work, summed.", label
        )
        self._longest = make.gauge(
            "workqueue_longest_running_processor_seconds", "Time spent on the oldest item.", label
        )
        self._retries = make.counter("workqueue_retries", "Delayed adds.", label)

    def depth(self, name: str, read: Callable[[], int]) -> None:
        self._depth.labels(name).set_function(read)

    def adds(self, name: str) -> workqueue.Counter:
        return self._adds.labels(name)

    def queue_duration(self, name: str) -> workqueue.Histogram:
        return self._waits.labels(name)

    def work_duration(self, name: str) -> workqueue.Histogram:
        return self._works.labels(name)

    def unfinished_work(self, name: str, read: Callable[[], float]) -> None:
        self._unfinished.labels(name).set_function(read)

    def longest_running_processor(self, name: str, read: Callable[[], float]) -> None:
        self._longest.labels(name).set_function(read)

    def retries(self, name: str) -> workqueue.Counter:
        return self._retries.labels(name)


class PrometheusInformerMetrics(informers.InformerMetrics):
    """Whether caches are fresh, servers cope and handlers keep up."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        label = ("informer",)
        self._lists = make.counter(
            "tfoperator_informer_lists", "Times the cache was filled anew; the first is the start.", label
        )
        self._list_seconds = make.histogram(
            "tfoperator_informer_list_duration_seconds", "Seconds to fill the cache.", label
        )
        self._failures = make.counter(
            "tfoperator_informer_failures", "Lists and watches that failed.", ("informer", "verb", "reason")
        )
        self._watches = make.counter("tfoperator_informer_watches", "Watches accepted.", label)
        self._watch_seconds = make.histogram(
            "tfoperator_informer_watch_duration_seconds",
            "How long watches lasted.",
            label,
            buckets=(1, 10, 60, 300, 600, 1200),
        )
        self._events = make.counter("tfoperator_informer_events", "Watch events.", ("informer", "type"))
        self._lag = make.gauge(
            "tfoperator_informer_last_event_age_seconds",
            "Seconds since the server was last heard of (a bookmark comes about every minute).",
            label,
        )
        self._objects = make.gauge("tfoperator_informer_objects", "Objects in the cache.", label)
        self._backlog = make.gauge(
            "tfoperator_informer_handler_backlog", "Notifications that wait.", ("informer", "handler")
        )
        self._handler_failures = make.counter(
            "tfoperator_informer_handler_failures", "Handlers that raised.", ("informer", "handler")
        )
        # One writer per informer (its reflector's thread); replaced whole, so a scrape may read at any time.
        self._heard_at: dict[str, float] = {}
        # Found here, since to find a child by its labels takes longer than to count.
        self._counted: dict[tuple[str, str], Counter] = {}

    def list_finished(self, informer: str, seconds: float, items: int) -> None:  # noqa: ARG002 - the protocol's
        self._lists.labels(informer).inc()
        self._list_seconds.labels(informer).observe(seconds)
        self._heard(informer)

    def list_failed(self, informer: str, reason: str) -> None:
        self._failures.labels(informer, "list", reason).inc()

    def watch_started(self, informer: str) -> None:
        self._watches.labels(informer).inc()
        self._heard(informer)

    def watch_finished(self, informer: str, seconds: float, events: int) -> None:  # noqa: ARG002 - the protocol's
        self._watch_seconds.labels(informer).observe(seconds)

    def watch_failed(self, informer: str, reason: str) -> None:
        self._failures.labels(informer, "watch", reason).inc()

    def events_received(self, informer: str, event_type: str, count: int) -> None:
        key = (informer, event_type)
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = self._events.labels(*key)
        found.inc(count)
        self._heard(informer)

    def store_size(self, informer: str, read: Callable[[], int]) -> None:
        self._objects.labels(informer).set_function(read)

    def handler_backlog(self, informer: str, handler: str, read: Callable[[], int]) -> None:
        self._backlog.labels(informer, handler).set_function(read)

    def handler_failed(self, informer: str, handler: str) -> None:
        self._handler_failures.labels(informer, handler).inc()

    def _heard(self, informer: str) -> None:
        first = informer not in self._heard_at
        self._heard_at[informer] = monotonic()
        if first:
            self._lag.labels(informer).set_function(lambda: monotonic() - self._heard_at[informer])
