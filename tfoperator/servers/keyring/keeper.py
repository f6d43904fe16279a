"""Keeps a server's certificate: the keyring of all replicas, from the Secret, made there if need be, renewed in time.

Replicas need no leader: the Secret holds for all of them. A certificate's issuer is published a whole period before
(`keyring`), so that clients have long trusted it when it is used.
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
"""Seconds between reads of the Secret without an event: another replica may have renewed it, or a user deleted it."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds, after a failure."""


def server_names(url: str, service: str, namespace: str, domain: str) -> Collection[str]:
    """Return the names that clients expect in a certificate: the URL's, else the Service's as they write them."""
    if url:
        return [urlsplit(url).hostname or ""]
    name = f"{service}.{namespace}.svc"
    return [name, f"{name}.{domain}"]


class KeyringKeeper(Repetition):
    """Calls `on_keyring` from its own thread with each keyring to use, at once and after each renewal.

    `start()` and `stop()` once each.
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
        """`hosts` are the names and addresses in the certificate, valid for `validity`; `owner` is its server."""
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
        """Make clients trust a keyring, if that is possible now; return the seconds until the next attempt."""
        return LOOK_SECONDS

    def seconds_until_trusted(self, keyring: Keyring) -> float:  # noqa: ARG002 - for subclasses
        """Return for how many seconds this keyring's certificate must not be used yet; 0 or less if it may be used."""
        return 0.0

    def _look(self) -> float:
        now = self._clock.monotonic()
        if self._failures and now < self._due:  # after a failure only time ends the wait
            return self._due - now
        try:
            seconds = self._keep()
            self._failures, self._complaint = 0, ""
            return seconds
        except (KubeError, ForeignSecret, CertificateError) as error:
            # The exponent is bounded, too: after a day of failures the power would exceed a float.
            seconds = min(_FIRST_PAUSE * 2.0 ** min(self._failures, 10), _LONGEST_PAUSE)
            self._failures, self._due = self._failures + 1, self._clock.monotonic() + seconds
            # Logged once per message, until a success: the pauses are short at first.
            if str(error) != self._complaint:
                logger.error("the %s's certificate can't be stored: %s; trying again", self._owner, error)
                self._complaint = str(error)
            return seconds

    def _keep(self) -> float:
        """Do every step that is possible now; return the seconds until the next check."""
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
