"""The conversion webhook in the test's own process, for a real API server on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from tests.support.cluster import decode, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import free_port
from tests.support.threads import no_threads_left
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ServerError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.servers.webhook.webhook import ConversionWebhook, WebhookConfig

V1ALPHA2 = Resource("kubeflow.org", "v1alpha2", "TFJob", "tfjobs")


def webhook_config(**changes: Any) -> WebhookConfig:
    """A webhook on a free port of loopback, which API servers on this machine reach by its URL."""
    port = free_port()
    given = {
        "host": "127.0.0.1",
        "port": port,
        "namespace": "default",
        "service": "tfoperator-webhook",
        "secret": "tfoperator-webhook-cert",
        "validity": timedelta(days=90),
        "shutdown_delay": 0.0,
        "url": f"https://127.0.0.1:{port}/convert",
    }
    return WebhookConfig(**(given | changes))


def wait_served(client: Client) -> None:
    """Return when v1alpha2 can be had: API servers take up a changed CRD a moment after it was written."""
    job = tfjob("probe", Worker=1) | {"apiVersion": "kubeflow.org/v1alpha2"}

    def served() -> bool:
        try:
            client.create(V1ALPHA2, "default", job, decode, dry_run=True)
        except ServerError as error:
            raise AssertionError(str(error)) from None
        return True

    eventually(served, every=0.05, what="v1alpha2 is served")


@contextmanager
def conversion_webhook(client: Client) -> Iterator[ConversionWebhook]:
    """A running webhook that the installed CRD leads to."""
    with no_threads_left():  # it waits for its keeper for 5 s only, which would then log into a closed stream
        webhook = ConversionWebhook(client, webhook_config())
        try:
            webhook.start()
            wait_served(client)
            yield webhook
        finally:
            webhook.stop()
