"""Maintains the server's certificate: the same for all replicas of the operator, from a Secret, renewed in time.

A pod gets the authorities at its creation, so the next certificate's issuer must long have been among
them: a keyring publishes it a whole period ahead. A certificate is valid for a year here and renewed after two thirds,
so a pod can report for 243 days, at least, before it would need a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import timedelta

from tfoperator.base.clock import Clock, Repetition
from tfoperator.kube.errors import KubeError
from tfoperator.servers.certificates.pem import CertificateError, KeyPair
from tfoperator.servers.keyring.keyring import Keyring
from tfoperator.servers.keyring.secret import ForeignSecret, KeyringSecret
from tfoperator.servers.progress.metrics import ProgressMetrics

logger = logging.getLogger(__name__)

VALIDITY = timedelta(days=365)

_LOOK_SECONDS, _RETRY_SECONDS = 300.0, 2.0
"""Seconds between two reads of the Secret (another replica may have renewed it, or a user deleted it); and between
two attempts while there is no certificate."""


OnCertificate = Callable[[KeyPair, bytes], None]
"""Receives a certificate to serve, and the authorities (PEM) that clients must trust from now on."""


class CertificateRenewal(Repetition):
    """Calls `on_certificate` from its own thread, at once and after each renewal. `start()` and `stop()` once each."""

    def __init__(
        self,
        secret: KeyringSecret,
        hosts: Collection[str],
        on_certificate: OnCertificate,
        *,
        metrics: ProgressMetrics,
        clock: Clock,
    ) -> None:
        """`hosts` are the names and addresses of the server in the certificate."""
        self._secret = secret
        self._hosts = frozenset(hosts)
        self._on_certificate = on_certificate
        self._metrics = metrics
        self._now = clock.now
        self._monotonic = clock.monotonic
        self._shown: Keyring | None = None
        self._complaint = ""
        self._due = float("-inf")
        super().__init__(self._look, seconds=_RETRY_SECONDS, clock=clock, name="progress-certificate")

    def _look(self) -> None:
        if self._monotonic() < self._due:
            return
        try:
            keyring = self._keyring()
            if self._shown is None or self._shown.serving != keyring.serving or self._shown.trusted != keyring.trusted:
                self._on_certificate(keyring.serving, keyring.bundle)
                self._metrics.certificate(keyring.about.ends)
                self._shown = keyring
        except (KubeError, ForeignSecret, CertificateError) as error:
            if str(error) != self._complaint:
                logger.error("the certificate of the progress server can't be kept: %s; trying again", error)
                self._complaint = str(error)
            return
        self._complaint = ""
        self._due = self._monotonic() + _LOOK_SECONDS

    def _keyring(self) -> Keyring:
        trusted = self._shown.trusted if self._shown else ()
        return self._secret.current(self._hosts, VALIDITY, trusted, self._now)
