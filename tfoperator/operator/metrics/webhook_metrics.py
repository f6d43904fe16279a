"""Prometheus metrics of the conversion webhook; imported only where the webhook is configured."""

from __future__ import annotations

from datetime import datetime

from prometheus_client import CollectorRegistry

from tfoperator.operator.metrics.tool_metrics import Makers
from tfoperator.servers import webhook

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5)


class PrometheusWebhookMetrics(webhook.WebhookMetrics):
    """The conversions, and the certificate in use."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        self._objects = make.counter(
            "tfoperator_webhook_objects", "Objects converted, by the version asked for.", ("version",)
        )
        self._seconds = make.histogram(
            "tfoperator_webhook_review_duration_seconds", "Seconds of one conversion review.", buckets=_BUCKETS
        )
        self._failures = make.counter(
            "tfoperator_webhook_failures", "Reviews that failed, and requests that were none.", ("reason",)
        )
        self._registrations = make.counter(
            "tfoperator_webhook_registrations", "Times the CRD was told where we are and whom to trust."
        )
        self._expiry = make.gauge(
            "tfoperator_webhook_certificate_expiry_timestamp_seconds", "When the certificate shown expires."
        )

    def reviewed(self, version: str, objects: int, seconds: float) -> None:
        self._objects.labels(version.rpartition("/")[2]).inc(objects)
        self._seconds.observe(seconds)

    def review_failed(self, reason: str) -> None:
        self._failures.labels(reason).inc()

    def certificate(self, expires: datetime) -> None:
        self._expiry.set(expires.timestamp())

    def registered(self) -> None:
        self._registrations.inc()
