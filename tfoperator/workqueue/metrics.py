"""The metrics of a queue, and the interface of the provider that publishes them.

Counters and histograms are pushed as things happen. Gauges are *pulled*: the provider gets a function to call when it
is scraped. A pulled gauge is exact at the moment it is read, and it needs neither a thread that refreshes it twice a
second nor a value for the time after that thread has stopped.

Published names and units (a provider prefixes `workqueue_` and labels by the queue's name): `depth`,
`adds_total`, `queue_duration_seconds`, `work_duration_seconds`, `unfinished_work_seconds`,
`longest_running_processor_seconds`, `retries_total`. Dashboards for Go controllers expect exactly these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

DURATION_BUCKETS: tuple[float, ...] = tuple(10.0**exponent for exponent in range(-6, 4))
"""Upper bounds in seconds for both duration histograms: ten buckets from 1 microsecond, each ten times the last.

Those of client-go's component-base begin at 10 ns, which no step in Python takes, and end at 10 s: with them the alert
about keys that wait for more than 10 s could never fire.
"""


class Counter(Protocol):
    """A number that only grows. A labelled `prometheus_client.Counter` fits as it is."""

    def inc(self, amount: float = 1) -> None:
        """Add `amount`. Must be thread-safe and quick."""
        ...


class Histogram(Protocol):
    """A distribution. A labelled `prometheus_client.Histogram` fits as it is."""

    def observe(self, amount: float) -> None:
        """Record one value. Must be thread-safe and quick."""
        ...


class _Nothing:
    def inc(self, amount: float = 1) -> None:
        pass

    def observe(self, amount: float) -> None:
        pass


_NO_METRIC = _Nothing()


class MetricsProvider:
    """Makes the metrics of one queue, here none: override what you need.

    Every method is called once, when a queue with a name is built.

    The functions given for gauges are thread-safe, take microseconds for an ordinary queue, and keep the queue
    alive for as long as the provider keeps them. No metric is ever updated while a queue's lock is held.
    """

    def depth(self, name: str, read: Callable[[], int]) -> None:
        """Receive the gauge of waiting items, those marked again while being processed included (may exceed `len`)."""

    def adds(self, name: str) -> Counter:  # noqa: ARG002 - for who overrides it
        """Return the counter of accepted items; an add that found its item waiting already does not count."""
        return _NO_METRIC

    def queue_duration(self, name: str) -> Histogram:  # noqa: ARG002 - for who overrides it
        """Return the histogram of seconds from an item's add to its `get`."""
        return _NO_METRIC

    def work_duration(self, name: str) -> Histogram:  # noqa: ARG002 - for who overrides it
        """Return the histogram of seconds from an item's `get` to its `done`."""
        return _NO_METRIC

    def unfinished_work(self, name: str, read: Callable[[], float]) -> None:
        """Receive the gauge of the summed seconds of the items in processing. Growing steadily: stuck workers."""

    def longest_running_processor(self, name: str, read: Callable[[], float]) -> None:
        """Receive the gauge of the seconds that the longest-running item in processing has taken so far."""

    def retries(self, name: str) -> Counter:  # noqa: ARG002 - for who overrides it
        """Return the counter of delayed adds, rate-limited ones included."""
        return _NO_METRIC
