"""Keeps three things consistent: the keyring in the Secret, the `caBundle` in the CRD, and the server's certificate.

If the CRD and the Secret contain different authorities, any replica of the operator writes the authorities of the
Secret to the CRD. A new certificate is used only after its authority has been in the CRD for some seconds, so that API
servers already trust it. If there is no valid older certificate, the new certificate is used at once. A single thread
does all the work. A change of the CRD or a timer wakes this thread. Each renewal changes the CRD, so each replica
notices the renewals of the other replicas.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from datetime import timedelta

from tfoperator.api.replicas.names import CRD_NAME
from tfoperator.base.clock import Clock
from tfoperator.kube import by_name
from tfoperator.kube.protocol.errors import ConflictError, MethodNotAllowedError
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS
from tfoperator.kube.protocol.verbs import ApiClient, WatchEventType
from tfoperator.kube.watching.reflector import Listed, News, Reflector
from tfoperator.servers.certificates.pem import split
from tfoperator.servers.keyring.keeper import LOOK_SECONDS, KeyringKeeper
from tfoperator.servers.keyring.keyring import Keyring
from tfoperator.servers.keyring.secret import KeyringSecret
from tfoperator.servers.webhook.metrics import WebhookMetrics
from tfoperator.servers.webhook.registration import (
    CrdView,
    Target,
    decode_crd,
    needs_conversion,
    registration_patch,
    trusted_by,
)

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 5.0
"""This many seconds after a change of the CRD, all API servers use the changed CRD: they watch CRDs."""

_FIRST_PACE, _LONGEST_PACE = 1.0, 60.0
"""The minimum pause between two writes to the CRD, and the maximum to which this pause grows, in seconds. The pause
doubles with each write. So if two operators overwrite each other's entry in the CRD, they become slower.
"""

_QUIET_SECONDS = 600.0
"""After this many seconds without a write, the pause is again `_FIRST_PACE`."""


class CertificateKeeper(KeyringKeeper):
    """The `KeyringKeeper` of the webhook. Its clients are API servers, which read the authorities in the CRD.

    The API server of `tfoperator local` converts jobs itself, and refuses changes of its CRD with 405. In this case
    the keeper uses each certificate at once.
    """

    def __init__(
        self,
        client: ApiClient,
        secret: KeyringSecret,
        target: Target,
        *,
        hosts: Collection[str],
        validity: timedelta,
        on_keyring: Callable[[Keyring], None],
        metrics: WebhookMetrics,
        clock: Clock,
    ) -> None:
        """`hosts` are the host names with which API servers call the webhook. `validity` is a certificate's lifetime.

        `target` is the address of the webhook that is written to the CRD.
        """
        super().__init__(secret, hosts, on_keyring, owner="webhook", validity=validity, clock=clock)
        self._client = client
        self._target = target
        self._metrics = metrics
        self._crd: CrdView | None = None  # replaced as a whole by the reflecting thread
        # Only the keeper's thread uses the following fields.
        self._trusted_since: dict[bytes, float] = {}  # by authority: when this process first saw it in the CRD
        self._pace = _FIRST_PACE
        self._written_at = float("-inf")
        self._is_read_only = False
        list_watch = client.list_watch(CUSTOM_RESOURCE_DEFINITIONS, "", decode_crd, by_name(CRD_NAME))
        self._reflector = Reflector(list_watch, name="crd", clock=clock)
        self._reflecting = threading.Thread(target=self._reflect, name="webhook-crd", daemon=True)

    def start(self) -> None:
        """Start to watch the CRD and to maintain the certificate."""
        self._reflecting.start()
        super().start()

    def stop(self, timeout: float | None = None) -> None:
        """End the keeper's thread and the thread that watches the CRD. Idempotent.

        If the keeper's thread is busy, wait for it for up to `timeout` seconds (None: no limit). A pending request ends
        only when the caller closes the client.
        """
        self._reflector.stop()
        super().stop(timeout)
        if self._reflecting.ident is not None:
            self._reflecting.join(5.0)

    def _reflect(self) -> None:
        for news in self._reflector:
            for crd in _states(news):
                self._crd = crd
                self.wake()

    # The keeper's thread calls the following methods.

    def publish(self, keyring: Keyring) -> float:
        """Write the webhook's address and the keyring's authorities to the CRD, if the CRD contains other values.

        If the pause since the last write is not over yet, write nothing. Return the seconds until the next call.
        """
        crd = self._crd
        if crd is None or self._is_read_only:
            return LOOK_SECONDS
        self._note_trust(crd)
        patch = registration_patch(crd, self._target, keyring.bundle)
        if patch is None:
            return LOOK_SECONDS
        since = self._clock.monotonic() - self._written_at
        if since < self._pace:
            return self._pace - since
        try:
            patched = self._client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, patch, decode_crd)
        except ConflictError:
            return LOOK_SECONDS  # somebody has changed the CRD; the watch delivers this change and wakes the thread
        except MethodNotAllowedError as error:
            self._is_read_only = True
            logger.info(
                "the API server does not use the webhook for TFJobs, because the CRD can't be changed: %s", error
            )
            return LOOK_SECONDS
        self._pace = _FIRST_PACE if since > _QUIET_SECONDS else min(self._pace * 2, _LONGEST_PACE)
        self._written_at = self._clock.monotonic()
        self._metrics.registered()
        logger.info("wrote the address of the conversion webhook and its trusted authorities to the CRD")
        self._note_trust(patched)
        return LOOK_SECONDS

    def _note_trust(self, crd: CrdView) -> None:
        now = self._clock.monotonic()
        self._trusted_since = {
            authority: self._trusted_since.get(authority, now) for authority in split(trusted_by(crd))
        }

    def seconds_until_trusted(self, keyring: Keyring) -> float:
        """Return the seconds until the certificate's authority has been in the CRD for 5 s, so that clients trust it.

        Return 0 if API servers don't need the webhook, or if there is no valid older certificate.
        """
        shown, crd = self._shown, self._crd
        if crd is None or self._is_read_only or not needs_conversion(crd):
            return 0.0
        if shown is None or shown.about.ends <= self._clock.now():
            return 0.0
        since = self._trusted_since.get(keyring.issuer)
        return _SETTLE_SECONDS - (0.0 if since is None else self._clock.monotonic() - since)


def _states(news: News[CrdView]) -> list[CrdView | None]:
    """Return the states of the CRD that the reflector has received, in order. None: the CRD does not exist."""
    if isinstance(news, Listed):
        return [next(iter(news.objects), None)]
    events = [event for event in news if event.object is not None]
    return [None if event.type is WatchEventType.DELETED else event.object for event in events]
