"""Reads a certificate from a directory, and reads it again when another program, such as cert-manager, has renewed it.

The files are read every 5 s, because notifications of the file system would not show changes of a mounted Secret: its
files are symbolic links. The certificate and its key are in two files. If the two files don't match, the other program
may be replacing them, so this module reads both again after 5 s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tfoperator.base.clock import Clock, Repetition
from tfoperator.servers.certificates.pem import CertificateError, KeyPair, facts

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
_MAX_BYTES = 1 << 20


class CertificateFiles(Repetition):
    """Calls `on_certificate`, from its own thread, with `tls.crt` and `tls.key` of a directory.

    `on_certificate` is called after the first read of these files, and after each change of their contents.
    Call `start` and `stop` once each. `on_certificate` must raise CertificateError if it can't use a certificate. If
    files are missing or invalid, this is logged once, and the previous certificate stays in use.
    """

    def __init__(
        self,
        folder: Path,
        *,
        owner: str,
        on_certificate: Callable[[KeyPair], None],
        on_expiry: Callable[[datetime], None],
        clock: Clock,
    ) -> None:
        """`owner` names the certificate in log lines.

        `on_expiry` receives the time at which the certificate in use expires.
        """
        self._folder = folder
        self._on_certificate = on_certificate
        self._owner = owner
        self._on_expiry = on_expiry
        self._shown: KeyPair | None = None
        self._complaint = ""
        super().__init__(self._look, seconds=_LOOK_SECONDS, clock=clock, name=f"{owner}-certificate")

    def _look(self) -> None:
        try:
            self._take()
            self._complaint = ""
        except (CertificateError, OSError) as error:
            self._complain(error)

    def _take(self) -> None:
        pair = KeyPair(self._read("tls.crt"), self._read("tls.key"))
        if pair == self._shown:
            return
        about = facts(pair.certificate)
        self._on_certificate(pair)
        self._on_expiry(about.ends)
        self._shown = pair
        if about.ends > self._clock.now():
            logger.info("using the certificate of %s, valid until %s", self._folder, about.ends)
        else:
            logger.error(
                "the certificate of %s expired at %s, so clients refuse it: renew it", self._folder, about.ends
            )

    def _read(self, name: str) -> bytes:
        with (self._folder / name).open("rb") as file:
            return file.read(_MAX_BYTES)

    def _complain(self, error: Exception) -> None:
        message = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else f"{self._folder}: {error}"
        if message != self._complaint:
            logger.error(
                "the certificate of the %s can't be used: %s; trying again every %g s",
                self._owner,
                message,
                _LOOK_SECONDS,
            )
            self._complaint = message
