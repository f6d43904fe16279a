"""Reads the credentials and the CA that kubeconfig files contain, and reads them again when a kubeconfig file changes.

A tool that logs a user in writes a new token or certificate into the kubeconfig. A process that continued to use the
old token would get only 401 responses. The files that a kubeconfig names (`tokenFile`, `client-certificate`) are read
again by other modules.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.base.files import file_mark
from tfoperator.kube.config.credentials import Credentials, IssuedCredential
from tfoperator.kube.protocol.errors import ConfigError

logger = logging.getLogger(__name__)

_RECHECK_SECONDS = 1.0
"""Seconds between two checks of the files. A client may send hundreds of requests in this time."""

Stamps = tuple[tuple[int, int, int] | None, ...]


class ChangeableParts(NamedTuple):
    """The parts of a kubeconfig that may change while a process uses it."""

    credential: IssuedCredential
    ca: str | bytes


class WrittenParts:
    """The credential and the CA in kubeconfig files. Reads the files again when they have changed. Thread-safe."""

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[], ChangeableParts],
        *,
        written: ChangeableParts,
        stamps: Stamps,
        clock: Clock | None = None,
    ) -> None:
        """Initialize with `written`, the content of the files. `read` reads the files again when they have changed.

        `stamps` is the result of `stamps_of` from before the files were read, and shows later whether they have
        changed.
        """
        self._paths = tuple(paths)
        self._read = read
        self._clock: Clock = clock or SystemClock()
        # Guards the fields below, and the reading of the files: a thread that needs their present content waits for it.
        self._lock = threading.Lock()
        self._stamps = stamps
        self._written = written
        self._looked = self._clock.monotonic()
        self._problem = ""

    @property
    def latest(self) -> ChangeableParts:
        """The content that was last read. Never blocks."""
        return self._written

    def held(self) -> ChangeableParts | None:
        """Return the content last read if the files were checked less than a second ago, else None. Never blocks."""
        return self._written if self._clock.monotonic() - self._looked < _RECHECK_SECONDS else None

    def now(self, *, at_once: bool = False) -> ChangeableParts:
        """Return the content of the files.

        First check the files if the last check is a second old, or if `at_once` is set. If the files can't be used, the
        problem is logged, and the content that was last read stays in use.
        """
        held = None if at_once else self.held()
        if held is not None:
            return held
        with self._lock:
            self._looked = self._clock.monotonic()
            stamps = stamps_of(self._paths)
            if stamps == self._stamps:
                return self._written
            try:
                self._written = self._read()
            except ConfigError as error:
                # The stamps stay: the file may be half written now, and complete at the next check.
                if str(error) != self._problem:
                    logger.warning("continuing with the old credentials: %s", error)
                self._problem = str(error)
            else:
                logger.info("%s has changed, so its credentials are read again", " and ".join(map(str, self._paths)))
                self._stamps, self._problem = stamps, ""
            return self._written


def stamps_of(paths: Sequence[Path]) -> Stamps:
    """Return a mark for each file. The mark changes when the file changes. The mark of a missing file is None."""
    return tuple(map(file_mark, paths))


class WrittenCredentials(Credentials):
    """The token, password or client certificate in a kubeconfig. Thread-safe."""

    def __init__(self, parts: WrittenParts) -> None:
        self._parts = parts

    def current(self) -> IssuedCredential:
        """Return the credential in the files."""
        return self._parts.now().credential

    def held(self) -> IssuedCredential | None:
        """Return the credential last read if the files were checked less than a second ago, else None."""
        held = self._parts.held()
        return None if held is None else held.credential

    def refused(self, authorization: str) -> bool:
        """Check the files at once.

        Return whether the files contain a credential that differs from the credential that the server refused.
        """
        before = self._parts.latest.credential
        fresh = self._parts.now(at_once=True).credential
        return fresh.authorization != authorization or fresh.certificate != before.certificate
