"""The conversion webhook in the operator's process: made from the options, counted in the metrics.

Nothing of it is imported unless the webhook is asked for: an operator for v1 alone does without certificates.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tfoperator.kube.verbs import ApiClient
from tfoperator.operator.options import Options

if TYPE_CHECKING:
    from tfoperator.webhook import ConversionWebhook

__all__ = ["ServedWebhook", "WebhookMetrics", "make_webhook"]

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5)


class WebhookMetrics:
    """A `tfoperator.webhook.WebhookMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._objects = Counter(
            "tfoperator_webhook_objects", "Objects converted, by the version asked for.", ("version",),
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "tfoperator_webhook_review_duration_seconds", "Seconds of one conversion review.", buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._failures = Counter(
            "tfoperator_webhook_failures", "Reviews that failed, and requests that were none.", ("reason",),
            registry=registry,
        )  # fmt: skip
        self._registrations = Counter(
            "tfoperator_webhook_registrations", "Times the CRD was told where we are and whom to trust.",
            registry=registry,
        )  # fmt: skip
        self._expiry = Gauge(
            "tfoperator_webhook_certificate_expiry_timestamp_seconds", "When the certificate shown expires.",
            registry=registry,
        )  # fmt: skip

    def reviewed(self, version: str, objects: int, seconds: float) -> None:
        """See `WebhookMetrics`."""
        self._objects.labels(version.rpartition("/")[2]).inc(objects)
        self._seconds.observe(seconds)

    def review_failed(self, reason: str) -> None:
        """See `WebhookMetrics`."""
        self._failures.labels(reason).inc()

    def certificate(self, expires: datetime) -> None:
        """See `WebhookMetrics`."""
        self._expiry.set(expires.timestamp())

    def registered(self) -> None:
        """See `WebhookMetrics`."""
        self._registrations.inc()


class ServedWebhook:
    """The webhook, with the end that API servers need: it answers on for a while after SIGTERM."""

    def __init__(self, webhook: ConversionWebhook, delay: float) -> None:
        self._webhook = webhook
        self._delay = delay
        self._until = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether requests can be answered."""
        return self._webhook.is_ready

    def start(self) -> None:
        """Begin to answer."""
        self._webhook.start()

    def drain(self) -> None:
        """The operator is stopping: send clients elsewhere, but serve those that haven't noticed yet."""
        self._webhook.drain()
        self._until = time.monotonic() + self._delay

    def stop(self) -> None:
        """End when the delay is over."""
        time.sleep(max(0.0, self._until - time.monotonic()))
        self._webhook.stop()


def make_webhook(options: Options, client: ApiClient, registry: CollectorRegistry, namespace: str) -> ServedWebhook:
    """The webhook that the options ask for; `namespace` is our own. Raises OSError if its address is taken."""
    from tfoperator.webhook import ConversionWebhook, WebhookConfig

    address = options.webhook_bind_address
    if address is None:
        raise ValueError("the options ask for no webhook")
    config = WebhookConfig(
        host=address.host,
        port=address.port,
        namespace=options.webhook_namespace or namespace,
        service=options.webhook_service,
        secret=options.webhook_secret,
        url=options.webhook_url,
        cert_dir=options.webhook_cert_dir,
        validity=timedelta(seconds=options.webhook_certificate_validity),
    )
    return ServedWebhook(
        ConversionWebhook(client, config, metrics=WebhookMetrics(registry)), options.webhook_shutdown_delay
    )
