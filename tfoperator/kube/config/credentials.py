"""The credentials of a client, and their renewal before they expire or after the server has refused them.

Before every request the client gets its credentials from memory. The credentials are renewed shortly before they
expire, and after the server has responded with 401. The repr of credentials, log lines and errors never show a secret.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.config.tls import ClientCertificate
from tfoperator.kube.protocol.errors import ConfigError

logger = logging.getLogger(__name__)

TOKEN_FILE_PERIOD = timedelta(seconds=60)
"""The time after which the client reads a token file again. A token is valid for an hour by default, and for at least
10 minutes. The kubelet replaces the token after 80 % of this lifetime, so the client reads the new token before the old
token expires. client-go uses the same time.
"""

_LEEWAY = timedelta(seconds=60)
_RENEWAL_PAUSE = timedelta(seconds=10)  # between attempts to renew a credential that is still valid


def bearer(token: str, source: str) -> str:
    """Return the value of the Authorization header for a token.

    Raises ConfigError, which names `source`, if a header can't contain the token.
    """
    token = token.strip()
    if not token:
        raise ConfigError(f"{source} is empty, but must contain a bearer token")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(
            f"{source} must contain only the bearer token, but it has blanks, line breaks or other characters that a "
            "token can't have"
        )
    return f"Bearer {token}"


class IssuedCredential(msgspec.Struct, frozen=True):
    """A credential, and the time at which it expires (None: valid until the server refuses it).

    `authorization` is the value of the header Authorization; "" means no header. `certificate` was issued together with
    the token, or instead of a token.
    """

    authorization: str = ""
    certificate: ClientCertificate | None = None
    expires: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Return whether the credential has not expired yet."""
        return self.expires is None or now < self.expires

    def __repr__(self) -> str:
        return f"IssuedCredential(expires={self.expires})"


class Credentials(ABC):
    """Returns the credential for each request, and renews it. Thread-safe."""

    @abstractmethod
    def current(self) -> IssuedCredential:
        """Return the credential for the next request.

        The call may block while it reads a file or runs a plugin. Raises ConfigError if there is no credential.
        """

    @abstractmethod
    def held(self) -> IssuedCredential | None:
        """Return the credential from memory.

        Return None if the credential must be read or issued first. The call never blocks, and never raises an
        exception.
        """

    @abstractmethod
    def refused(self, authorization: str) -> bool:
        """Renew the credential after the server has refused this header value with 401.

        Return whether the caller should try again, because `current()` now returns another credential. May block.
        """


class StaticCredentials(Credentials):
    """A header that never changes: a token, a user with a password, or (by default) no header.

    Certificates from the kubeconfig are part of the TLS options.
    """

    def __init__(self, authorization: str = "") -> None:
        self._held = IssuedCredential(authorization)

    def current(self) -> IssuedCredential:
        """Return the fixed header."""
        return self._held

    held = current

    def refused(self, authorization: str) -> bool:  # noqa: ARG002 - the base's
        """Return False: there is no other header to try."""
        return False


class IssuedCredentials(Credentials):
    """Credentials that `issue` returns, for example from an exec plugin.

    `issue` is called when there is no valid credential, when the credential is about to expire, after a 401, and for a
    credential without an expiry once per `every`. One thread calls `issue`, and other threads without a valid
    credential wait for the result. All these threads get the same result, even if it is an error. So eight threads
    don't open the login page of a plugin eight times. `issue` may block, and raises ConfigError if it fails.
    """

    def __init__(
        self, issue: Callable[[], IssuedCredential], *, every: timedelta | None = None, clock: Clock | None = None
    ) -> None:
        self._issue = issue
        self._every = every
        self._clock: Clock = clock or SystemClock()
        self._changed = threading.Condition()  # guards the fields below
        self._current: IssuedCredential | None = None
        self._renew_at: datetime | None = None
        self._running = False
        self._rounds = 0
        self._failure: ConfigError | None = None

    def held(self) -> IssuedCredential | None:
        """Return the current credential if it is valid.

        Return None if the credential is not valid, or if it is time to renew it and no renewal is running.
        """
        with self._changed:
            return self._usable()

    def _usable(self) -> IssuedCredential | None:
        """Return the current credential if it is valid.

        If it is time to renew the credential, return None, unless a renewal is already running. The caller holds the
        lock.
        """
        current, now = self._current, self._clock.now()
        due = self._renew_at is not None and now >= self._renew_at
        return current if current is not None and current.holds(now) and (self._running or not due) else None

    def refused(self, authorization: str) -> bool:
        """Issue a new credential, unless another thread has already done this.

        Return whether the credential has changed.
        """
        with self._changed:
            old = self._current
            if old is not None and old.authorization == authorization:
                self._current = None
        fresh = self.current()
        return fresh.authorization != authorization or (old is not None and fresh.certificate != old.certificate)

    def current(self) -> IssuedCredential:
        """Return the current credential. If it is invalid, or if its renewal is due, first issue a new credential."""
        with self._changed:
            while True:
                usable = self._usable()
                if usable is not None:
                    return usable
                if not self._running:
                    break
                round_before = self._rounds
                while self._running and self._rounds == round_before:
                    self._clock.wait_until(self._changed, None)
                if self._failure is not None and self._current is None:
                    raise ConfigError(str(self._failure)) from self._failure
            self._running, fallback = True, self._current
        return self._renew(fallback)

    def _renew(self, fallback: IssuedCredential | None) -> IssuedCredential:
        issued, failure = None, None
        try:
            issued = self._issue()
        except ConfigError as error:
            failure = error
        finally:
            now = self._clock.now()
            with self._changed:
                if issued is not None:
                    self._current, self._renew_at = issued, self._renewal(issued.expires, now)
                elif fallback is not None and fallback.holds(now):
                    self._renew_at = now + _RENEWAL_PAUSE
                else:
                    self._current = None
                current = self._current
                self._running, self._failure = False, failure
                self._rounds += 1
                self._changed.notify_all()
        if failure is not None:
            if current is None:
                raise failure
            logger.warning("continuing with the old credentials: %s", failure)
        assert current is not None
        return current

    def _renewal(self, expires: datetime | None, now: datetime) -> datetime | None:
        """Return when to renew a credential: a minute before it expires.

        A credential with less than ten minutes left is renewed when a tenth of this time is left. A credential without
        an expiry is renewed after `every` (None: never).
        """
        if expires is None:
            return None if self._every is None else now + self._every
        return expires - min(_LEEWAY, max(expires - now, timedelta(0)) / 10)


class TokenFile(IssuedCredentials):
    """A bearer token in a file that another process renews, for example the kubelet for a service account.

    The file is read again once a minute, and after a 401 response. If the file can't be read, the last token stays in
    use, unless the server has refused it. The constructor raises ConfigError if it can't read the file.
    """

    def __init__(self, path: str | Path, *, clock: Clock | None = None) -> None:
        self._path = Path(path)
        super().__init__(self._read, every=TOKEN_FILE_PERIOD, clock=clock)
        self.current()

    def _read(self) -> IssuedCredential:
        try:
            return IssuedCredential(bearer(self._path.read_text("utf-8"), f"token file {self._path}"))
        except OSError as error:
            raise ConfigError(f"cannot read the token file {self._path}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ConfigError(f"token file {self._path} must contain a bearer token, but is not UTF-8 text") from None
