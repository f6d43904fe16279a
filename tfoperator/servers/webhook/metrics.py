"""Prometheus metrics of the conversion webhook."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry

from tfoperator.base.metrics import Makers

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5)


class WebhookMetrics:
    """Counts conversions and refusals, and shows when the certificate in use expires. Thread-safe.

    Without a registry, the metrics are not exposed.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        make = Makers(registry)
        self._objects = make.counter(
            "tfoperator_webhook_objects", "Objects that were converted, by the requested version.", ("version",)
        )
        self._seconds = make.histogram(
            "tfoperator_webhook_review_duration_seconds",
            "Duration of a conversion review in seconds.",
            buckets=_BUCKETS,
        )
        self._failures = make.counter(
            "tfoperator_webhook_failures",
            "Conversion reviews that failed, and requests that were not conversion reviews.",
            ("reason",),
        )
        self._registrations = make.counter(
            "tfoperator_webhook_registrations",
            "Number of times the webhook's address and trusted authorities were written to the CRD.",
        )
        self._expiry = make.gauge(
            "tfoperator_webhook_certificate_expiry_timestamp_seconds", "Time at which the certificate in use expires."
        )

    def reviewed(self, version: str, objects: int, seconds: float) -> None:
        """Count a successful ConversionReview.

        `objects` is the number of objects that were converted to the API version `version`, and `seconds` is the time
        that the review took.
        """
        self._objects.labels(version.rpartition("/")[2]).inc(objects)
        self._seconds.observe(seconds)

    def review_failed(self, reason: str) -> None:
        """Count a refused request or a failed conversion. `reason` is one word from a small set."""
        self._failures.labels(reason).inc()

    def certificate(self, expires: datetime) -> None:
        """Set the time at which the new certificate of the server expires."""
        self._expiry.set(expires.timestamp())

    def registered(self) -> None:
        """Count a write of the webhook's address and authorities to the CRD."""
        self._registrations.inc()
