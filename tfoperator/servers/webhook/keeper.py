"""Keeps three things consistent: the keyring in the Secret, the CRD's authorities, and the server's certificate.

One thread does it all, woken by every change of the CRD (which each renewal changes, so replicas notice each other's)
and by time. The order prevents failed requests: a certificate is used only after its issuer has been in the
CRD for some seconds, in which API servers notice it, unless there is no other to use. Replicas need no leader:
the Secret holds for all of them, and they write its authorities to the CRD.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from datetime import timedelta

from tfoperator.api.names import CRD_NAME
from tfoperator.base.clock import Clock
from tfoperator.kube import by_name
from tfoperator.kube.errors import ConflictError, KubeError
from tfoperator.kube.reflector import Listed, News, Reflector
from tfoperator.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from tfoperator.kube.verbs import ApiClient, WatchEventType
from tfoperator.servers.certificates.pem import CertificateError, KeyPair, split
from tfoperator.servers.keyring.keyring import Keyring
from tfoperator.servers.keyring.secret import ForeignSecret, KeyringSecret
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

_LOOK_SECONDS = 300.0
"""Seconds between reads of the Secret without an event: a user may have deleted it."""

_SETTLE_SECONDS = 5.0
"""Seconds in which API servers, which watch CRDs, have certainly noticed a changed one."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds, after a failure, and between two writes to the CRD: another operator may claim the CRD, and two
that overwrite each other must be slowed down."""

_QUIET_SECONDS = 600.0


class CertificateKeeper:
    """Calls `on_certificate`, from its own thread, with each certificate to serve. `start()` and `stop()` once each."""

    def __init__(
        self,
        client: ApiClient,
        secret: KeyringSecret,
        target: Target,
        *,
        hosts: Collection[str],
        validity: timedelta,
        on_certificate: Callable[[KeyPair], None],
        metrics: WebhookMetrics,
        clock: Clock,
    ) -> None:
        """`hosts` are the names by which API servers call the webhook; certificates for them are valid that long."""
        self._client = client
        self._secret = secret
        self._target = target
        self._hosts = frozenset(hosts)
        self._validity = validity
        self._on_certificate = on_certificate
        self._metrics = metrics
        self._clock = clock
        self._wake = threading.Condition()  # guards the three fields below
        self._stopped = False
        self._crd: CrdView | None = None
        self._changed = False
        # Only the thread uses the rest.
        self._shown: Keyring | None = None
        self._trusted_since: dict[bytes, float] = {}
        self._pace = _FIRST_PAUSE
        self._written_at = float("-inf")
        self._complaint = ""
        list_watch = client.list_watch(CUSTOM_RESOURCE_DEFINITIONS, "", decode_crd, by_name(CRD_NAME))
        self._reflector = Reflector(list_watch, name="crd", clock=clock)
        self._threads = (
            threading.Thread(target=self._reflect, name="webhook-crd", daemon=True),
            threading.Thread(target=self._run, name="webhook-certificate", daemon=True),
        )

    def start(self) -> None:
        """Start to watch the CRD and to maintain the certificate."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads. Idempotent; a pending request ends with the client."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        self._reflector.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(5.0)

    def _reflect(self) -> None:
        for news in self._reflector:
            for crd in _states(news):
                with self._wake:
                    self._crd = crd
                    self._changed = True
                    self._wake.notify_all()

    # The thread.

    def _run(self) -> None:
        failures = 0
        while True:
            with self._wake:
                crd, self._changed = self._crd, False
            try:
                seconds = self._keep(crd)
                failures, self._complaint = 0, ""
            except (KubeError, ForeignSecret, CertificateError) as error:
                # The exponent is bounded, too: after a day of failures the power would exceed a float.
                seconds = min(_FIRST_PAUSE * 2 ** min(failures, 10), _LONGEST_PAUSE)
                failures += 1
                self._complain(f"the webhook's certificate can't be kept: {error}")
            except Exception:
                seconds = _LONGEST_PAUSE
                logger.exception("keeping the webhook's certificate failed unexpectedly")
            if self._rest(seconds, wakeable=not failures):
                return

    def _rest(self, seconds: float, *, wakeable: bool) -> bool:
        """Wait, unless the CRD changes; return whether to end. After a failure only time ends the wait."""
        deadline = self._clock.monotonic() + seconds
        with self._wake:
            while not self._stopped and not (wakeable and self._changed):
                if not self._clock.wait_until(self._wake, deadline):
                    break
            return self._stopped

    def _keep(self, crd: CrdView | None) -> float:
        """Do every step that is possible now; return the seconds until the next check."""
        keyring = self._keyring()
        waits = [_LOOK_SECONDS, (keyring.renewal - self._clock.now()).total_seconds()]
        if crd is not None:
            waits.append(self._register(crd, keyring))
        waits.append(self._show(crd, keyring))
        return max(0.1, min(waits))

    def _keyring(self) -> Keyring:
        trusted = self._shown.trusted if self._shown else ()
        return self._secret.current(self._hosts, self._validity, trusted, self._clock.now)

    def _register(self, crd: CrdView, keyring: Keyring) -> float:
        """Make the CRD trust the keyring. Return the seconds until the next attempt, if it must be later."""
        self._note_trust(crd)
        patch = registration_patch(crd, self._target, keyring.bundle)
        if patch is None:
            return _LOOK_SECONDS
        since = self._clock.monotonic() - self._written_at
        if since < self._pace:
            return self._pace - since
        try:
            patched = self._client.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, patch, decode_crd)
        except ConflictError:
            return _LOOK_SECONDS  # the watch delivers the other write
        self._pace = _FIRST_PAUSE if since > _QUIET_SECONDS else min(self._pace * 2, _LONGEST_PAUSE)
        self._written_at = self._clock.monotonic()
        self._metrics.registered()
        logger.info("told the CRD where the conversion webhook is and which authorities to trust")
        self._note_trust(patched)
        return _LOOK_SECONDS

    def _note_trust(self, crd: CrdView) -> None:
        now = self._clock.monotonic()
        self._trusted_since = {one: self._trusted_since.get(one, now) for one in split(trusted_by(crd))}

    def _show(self, crd: CrdView | None, keyring: Keyring) -> float:
        """Serve the keyring's certificate, or return the seconds until that is possible."""
        shown = self._shown
        if shown is not None and shown.serving == keyring.serving:
            return _LOOK_SECONDS
        asked = crd is not None and needs_conversion(crd)
        if shown is not None and asked and shown.about.ends > self._clock.now():
            since = self._trusted_since.get(keyring.issuer)
            waited = 0.0 if since is None else self._clock.monotonic() - since
            if waited < _SETTLE_SECONDS:
                return _SETTLE_SECONDS - waited
        self._on_certificate(keyring.serving)
        self._metrics.certificate(keyring.about.ends)
        self._shown = keyring
        return _LOOK_SECONDS

    def _complain(self, message: str) -> None:
        # Logged once per message, until a success: the pauses are short at first.
        if message != self._complaint:
            logger.error("%s; trying again", message)
            self._complaint = message


def _states(news: News[CrdView]) -> list[CrdView | None]:
    """Return the states of the CRD, in order; None where it is gone."""
    if isinstance(news, Listed):
        return [next(iter(news.objects), None)]
    events = [event for event in news if event.object is not None]
    return [None if event.type is WatchEventType.DELETED else event.object for event in events]
