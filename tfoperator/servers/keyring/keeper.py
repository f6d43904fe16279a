"""Keeps the certificate of a server.

The keyring of all replicas is in a Secret. The keeper makes the Secret if it is missing, and renews the certificate in
time. The replicas need no leader for this, because all replicas use the same Secret. The authority that signs a
certificate is published a whole period before the certificate (`keyring`). So clients have trusted it for a long time
when the certificate is used.
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
"""Seconds between reads of the Secret, if nothing else causes a read. Another replica may have renewed the certificate,
or a user may have deleted the Secret.
"""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until the next attempt after a failure: the first pause, and the longest pause."""


def server_names(url: str, service: str, namespace: str, domain: str) -> Collection[str]:
    """Return the names that clients expect in a certificate: the name in the URL.

    Without a URL, return the Service's names as clients write them.
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
        """`hosts` are the names and addresses in the certificate.

        `validity` is how long a certificate is valid. `owner` is the server to which it belongs.
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
        """Make clients trust a keyring, if that is possible now; return the seconds until the next attempt."""
        return LOOK_SECONDS

    def seconds_until_trusted(self, keyring: Keyring) -> float:  # noqa: ARG002 - for subclasses
        """Return how many seconds must pass before this keyring's certificate may be used.

        If it is 0 or less, it may be used now.
        """
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
        """Do all steps that are possible now. Return the seconds until the next check."""
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
