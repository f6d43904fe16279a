"""Prometheus metrics of the client and the informers.

The client's metrics have the names that dashboards for Go controllers use. The packages `kube` and `informers` define
hooks for metrics and do not import prometheus_client, so that programs with the SDK don't need it. The classes in this
module override these hooks.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from time import monotonic

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tfoperator import informers
from tfoperator.base.metrics import Makers
from tfoperator.kube import RequestObserver

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
_WAIT_BUCKETS = (0.005, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0)


class _Durations:
    """A histogram of request times in seconds, by verb and host. Not thread-safe."""

    def __init__(self, name: str, documentation: str, bounds: tuple[float, ...]) -> None:
        self._name, self._documentation = name, documentation
        self._bounds = (*bounds, math.inf)
        self._counts: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[tuple[str, str], float] = {}

    def observe(self, verb: str, host: str, seconds: float) -> None:
        key = (verb, host)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * len(self._bounds)
            self._sums[key] = 0.0
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[key] += seconds

    def family(self) -> HistogramMetricFamily:
        family = HistogramMetricFamily(self._name, self._documentation, labels=("verb", "host"))
        for key, counts in self._counts.items():
            total, buckets = 0, []
            for bound, count in zip(self._bounds, counts, strict=True):
                total += count
                buckets.append(("+Inf" if bound == math.inf else str(bound), float(total)))
            family.add_metric(key, buckets, self._sums[key])
        return family


class ClientMetrics(RequestObserver, Collector):
    """The `rest_client_` metrics: the requests of a client, their durations, waits and retries.

    The registry reads the counts at each scrape. Thread-safe. Counting one request takes 1.4 µs with this class, and
    3.4 µs with the metric objects of prometheus_client.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()  # guards the next three
        self._answers: dict[tuple[str, str, str], int] = {}  # by code, method and host
        self._seconds = _Durations("rest_client_request_duration_seconds", "Seconds until the answer.", _BUCKETS)
        self._waits = _Durations(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds for which the client's own rate limit delayed a request.",
            _WAIT_BUCKETS,
        )
        self._retries = Counter(
            "rest_client_request_retries", "Requests repeated.", ("code", "verb", "host"), registry=registry
        )
        registry.register(self)

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        key = (code, method, host)
        with self._lock:
            self._answers[key] = self._answers.get(key, 0) + 1
            self._seconds.observe(method, host, seconds)

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        with self._lock:
            self._waits.observe(method, host, seconds)

    def retry(self, method: str, host: str, code: str) -> None:
        self._retries.labels(code, method, host).inc()

    def collect(self) -> Iterator[Metric]:
        """Return the counts so far."""
        requests = CounterMetricFamily("rest_client_requests", "Requests by answer.", labels=("code", "method", "host"))
        with self._lock:
            for key, count in self._answers.items():
                requests.add_metric(key, count)
            durations = [self._seconds.family(), self._waits.family()]
        yield requests
        yield from durations


class PrometheusInformerMetrics(informers.InformerMetrics):
    """Metrics that show whether caches are up to date, whether servers answer in time, and whether handlers keep up."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        label = ("informer",)
        self._lists = make.counter(
            "tfoperator_informer_lists", "Number of times the cache was filled; the first time is at the start.", label
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
            "Duration of watches.",
            label,
            buckets=(1, 10, 60, 300, 600, 1200),
        )
        self._events = make.counter("tfoperator_informer_events", "Watch events.", ("informer", "type"))
        self._lag = make.gauge(
            "tfoperator_informer_last_event_age_seconds",
            "Seconds since the last event or bookmark from the server (a bookmark comes about every minute).",
            label,
        )
        self._objects = make.gauge("tfoperator_informer_objects", "Objects in the cache.", label)
        self._backlog = make.gauge(
            "tfoperator_informer_handler_backlog", "Notifications that wait.", ("informer", "handler")
        )
        self._handler_failures = make.counter(
            "tfoperator_informer_handler_failures", "Handlers that raised.", ("informer", "handler")
        )
        # Each key is written only by the thread of its informer's reflector, so a scrape can read without a lock.
        self._heard_at: dict[str, float] = {}
        # A cache, since finding a metric by its labels takes longer than counting.
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
