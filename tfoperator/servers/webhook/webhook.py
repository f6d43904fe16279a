"""The conversion webhook. It starts and stops the server together with the maintenance of the server's certificate."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.servers.certificates.files import CertificateFiles
from tfoperator.servers.keyring.keeper import server_names
from tfoperator.servers.keyring.keyring import Keyring
from tfoperator.servers.keyring.secret import KeyringSecret
from tfoperator.servers.webhook.keeper import CertificateKeeper
from tfoperator.servers.webhook.metrics import WebhookMetrics
from tfoperator.servers.webhook.registration import Target
from tfoperator.servers.webhook.server import ReviewServer


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the webhook: where it listens, how API servers reach it, and where its certificate comes from.

    API servers reach the webhook at `url` if it is set, and otherwise through the Service. With `cert_dir`, the
    certificate is read from this directory. Then the Secret and the CRD are not changed. `shutdown_delay` is the number
    of seconds for which the webhook still responds after `drain()`. It takes some seconds until API servers and the
    cluster's network no longer send requests to a pod that ends.
    """

    host: str
    port: int
    namespace: str
    service: str
    secret: str
    validity: timedelta
    shutdown_delay: float
    url: str = ""
    cert_dir: str = ""


class ConversionWebhook:
    """Converts TFJobs for API servers. Call `start()` and `stop()` once each. Thread-safe."""

    def __init__(
        self,
        client: ApiClient,
        config: WebhookConfig,
        *,
        metrics: WebhookMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Listen on the address in `config`. Raises ListenError if the address is in use."""
        clock, metrics = clock or SystemClock(), metrics or WebhookMetrics()
        self._metrics = metrics
        self._delay = config.shutdown_delay
        self._stops_at = 0.0
        self._server = ReviewServer(config.host, config.port, metrics)
        self._keeper: CertificateKeeper | CertificateFiles
        if config.cert_dir:
            self._keeper = CertificateFiles(
                Path(config.cert_dir),
                owner="webhook",
                on_certificate=self._server.show,
                on_expiry=metrics.certificate,
                clock=clock,
            )
        else:
            self._keeper = CertificateKeeper(
                client,
                KeyringSecret(client, config.namespace, config.secret),
                Target(config.service, config.namespace, config.url),
                hosts=server_names(config.url, config.service, config.namespace, "cluster.local"),
                validity=config.validity,
                on_keyring=self._show,
                metrics=metrics,
                clock=clock,
            )

    @property
    def port(self) -> int:
        """The port at which the webhook listens."""
        return self._server.port

    @property
    def is_ready(self) -> bool:
        """Whether the webhook has a certificate and so can respond to requests."""
        return self._server.is_ready()

    def start(self) -> None:
        """Start to respond to requests and to keep the certificate up to date, in other threads."""
        self._server.start()
        self._keeper.start()

    def drain(self) -> None:
        """Continue to respond until `stop`, but close each connection after its next response."""
        self._server.drain()
        self._stops_at = time.monotonic() + self._delay

    def stop(self) -> None:
        """Wait until `shutdown_delay` seconds have passed since `drain`, answer current requests, and end all threads.

        Idempotent.
        """
        time.sleep(max(0.0, self._stops_at - time.monotonic()))
        self._keeper.stop()
        self._server.stop()

    def _show(self, keyring: Keyring) -> None:
        self._server.show(keyring.serving)
        self._metrics.certificate(keyring.about.ends)
