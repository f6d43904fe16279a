"""The conversion webhook in the operator's process: made from the options, counted in the metrics.

Its modules are imported only if the webhook is configured: an operator for v1 alone needs no certificates.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from tfoperator.kube.verbs import ApiClient
from tfoperator.operator.options import Options

if TYPE_CHECKING:
    from tfoperator.servers.webhook import ConversionWebhook


class ServedWebhook:
    """The webhook, with a shutdown as API servers need it: it answers for a while after SIGTERM."""

    def __init__(self, webhook: ConversionWebhook, delay: float) -> None:
        self._webhook = webhook
        self._delay = delay
        self._until = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether requests can be answered."""
        return self._webhook.is_ready

    def start(self) -> None:
        """Start to answer."""
        self._webhook.start()

    def drain(self) -> None:
        """Send clients elsewhere because the operator stops, but serve those that haven't noticed yet."""
        self._webhook.drain()
        self._until = time.monotonic() + self._delay

    def stop(self) -> None:
        """Stop when the delay is over."""
        time.sleep(max(0.0, self._until - time.monotonic()))
        self._webhook.stop()


def make_webhook(options: Options, client: ApiClient, registry: CollectorRegistry, namespace: str) -> ServedWebhook:
    """Return the webhook of these options; `namespace` is our own. Raises OSError if its address is taken."""
    from tfoperator.operator.metrics.webhook_metrics import PrometheusWebhookMetrics
    from tfoperator.servers.webhook import ConversionWebhook, WebhookConfig

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
        ConversionWebhook(client, config, metrics=PrometheusWebhookMetrics(registry)), options.webhook_shutdown_delay
    )
