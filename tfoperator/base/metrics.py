"""Makes metrics of prometheus_client in a given registry, or without a registry."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Makers:
    """Makes metrics in one registry, or in none; the arguments are as in prometheus_client."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.counter = partial(Counter, registry=registry)
        self.gauge = partial(Gauge, registry=registry)
        self.histogram = partial(Histogram, registry=registry)
