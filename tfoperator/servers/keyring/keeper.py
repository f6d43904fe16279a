"""Keeps the certificate of a server up to date.

A Secret contains the keyring (certificate, key and authorities) of all replicas. Each replica has a keeper. A keeper
makes the Secret if it is missing, and renews the certificate in time. The replicas need no leader for this, because the
API server accepts only the first of two simultaneous writes (`secret`). Each renewal publishes the authority that signs
the certificate of the next renewal (`keyring`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import timedelta
from urllib.parse import urlsplit

from tfoperator.base.clock import Clock, Repetition
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.servers.certificates.pem import CertificateError
from tfoperator.servers.keyring.keyring import Keyring
from tfoperator.servers.keyring.secret import ForeignSecret, KeyringSecret

logger = logging.getLogger(__name__)

LOOK_SECONDS = 300.0
"""The maximum seconds between two reads of the Secret. Another replica may have renewed the certificate, or a user may
have deleted the Secret.
"""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""The seconds until the next attempt after a failure: after the first failure, and the maximum. The pauses double."""


def server_names(url: str, service: str, namespace: str, domain: str) -> Collection[str]:
    """Return the host names that the certificate must contain: the host of the URL.

    Without a URL, return the DNS names of the Service: `SERVICE.NAMESPACE.svc` and `SERVICE.NAMESPACE.svc.DOMAIN`.
    """
    if url:
        return [urlsplit(url).hostname or ""]
    name = f"{service}.{namespace}.svc"
    return [name, f"{name}.{domain}"]


class KeyringKeeper(Repetition):
    """Calls `on_keyring` from its own thread with each keyring to use: at the start, and after each renewal.

    Call `start()` and `stop()` once each.
    """

    def __init__(
        self,
        secret: KeyringSecret,
        hosts: Collection[str],
        on_keyring: Callable[[Keyring], None],
        *,
        owner: str,
        validity: timedelta,
        clock: Clock,
    ) -> None:
        """`hosts` are the names and addresses that the certificate must contain.

        `validity` is the lifetime of a certificate. `owner` is the name of the server in log lines.
        """
        self._secret = secret
        self._hosts = frozenset(hosts)
        self._validity = validity
        self._on_keyring = on_keyring
        self._owner = owner
        self._clock = clock
        self._shown: Keyring | None = None
        self._failures = 0  # in a row
        self._due = float("-inf")
        self._complaint = ""
        super().__init__(self._look, seconds=_LONGEST_PAUSE, clock=clock, name=f"{owner}-certificate")

    def publish(self, keyring: Keyring) -> float:  # noqa: ARG002 - for subclasses
        """Publish the authorities of a keyring to clients; return the seconds until the next call.

        In this class, the method does nothing. A subclass writes, for example, the `caBundle` of a CRD.
        """
        return LOOK_SECONDS

    def seconds_until_trusted(self, keyring: Keyring) -> float:  # noqa: ARG002 - for subclasses
        """Return the seconds until the keyring's certificate may be used, because all clients trust its authority then.

        If the result is 0 or less, the certificate may be used now. In this class, the result is always 0.
        """
        return 0.0

    def _look(self) -> float:
        now = self._clock.monotonic()
        if self._failures and now < self._due:  # a wake-up does not end the pause after a failure
            return self._due - now
        try:
            seconds = self._keep()
            self._failures, self._complaint = 0, ""
            return seconds
        except (KubeError, ForeignSecret, CertificateError) as error:
            # The exponent is limited, because after a day of failures the power would be too large for a float.
            seconds = min(_FIRST_PAUSE * 2.0 ** min(self._failures, 10), _LONGEST_PAUSE)
            self._failures, self._due = self._failures + 1, self._clock.monotonic() + seconds
            # Until a success, a repeated message is logged only once: the first pauses are short.
            if str(error) != self._complaint:
                logger.error("the %s's certificate can't be stored: %s; trying again", self._owner, error)
                self._complaint = str(error)
            return seconds

    def _keep(self) -> float:
        """Read or renew the keyring, publish its authorities, and use its certificate if clients trust the certificate.

        Return the seconds until the next call.
        """
        shown = self._shown
        keyring = self._secret.current(self._hosts, self._validity, shown.trusted if shown else (), self._clock.now)
        until_renewal = (keyring.renewal - self._clock.now()).total_seconds()
        waits = [LOOK_SECONDS, until_renewal, self.publish(keyring)]
        if shown is None or (shown.serving, shown.trusted) != (keyring.serving, keyring.trusted):
            waits.append(self.seconds_until_trusted(keyring))
            if waits[-1] <= 0:
                del waits[-1]
                self._on_keyring(keyring)
                self._shown = keyring
        return max(0.1, min(waits))
