"""A certificate that somebody else keeps, such as cert-manager: read from a directory, and again when it changes.

The files are looked at every few seconds: those of a mounted Secret are symbolic links that change elsewhere. A
certificate and its key are read one after the other, so a pair that doesn't match may be a change under way: it is
read again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from tfoperator.clock import Clock, StopSignal
from tfoperator.webhook.certificates import CertificateError, KeyPair, facts
from tfoperator.webhook.metrics import WebhookMetrics

__all__ = ["CertificateFiles"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
_MAX_BYTES = 1 << 20


class CertificateFiles:
    """Calls `on_certificate`, from its own thread, with `tls.crt` and `tls.key` of a directory. `start`, `stop` once.

    `on_certificate` raises CertificateError for what can't be used. Missing or wrong files are reported once; what was
    shown before is shown on.
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_certificate: Callable[[KeyPair], None],
        metrics: WebhookMetrics,
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._on_certificate = on_certificate
        self._metrics = metrics
        self._clock = clock
        self._shown: KeyPair | None = None
        self._complaint = ""
        self._stop = StopSignal()
        self._thread = threading.Thread(target=self._run, name="webhook-certificate", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self._look()
                self._complaint = ""
            except (CertificateError, OSError) as error:
                self._complain(error)
            except Exception:
                logger.exception("looking at %s failed unexpectedly", self._folder)
            if self._stop.wait(self._clock, _LOOK_SECONDS):
                return

    def _look(self) -> None:
        pair = KeyPair(self._read("tls.crt"), self._read("tls.key"))
        if pair == self._shown:
            return
        about = facts(pair.certificate)
        self._on_certificate(pair)
        self._metrics.certificate(about.ends)
        self._shown = pair
        if about.ends > self._clock.now():
            logger.info("showing the certificate of %s, valid until %s", self._folder, about.ends)
        else:
            logger.error(
                "the certificate of %s expired at %s: API servers refuse it, renew it", self._folder, about.ends
            )

    def _read(self, name: str) -> bytes:
        with (self._folder / name).open("rb") as file:
            return file.read(_MAX_BYTES)

    def _complain(self, error: Exception) -> None:
        message = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else f"{self._folder}: {error}"
        if message != self._complaint:
            logger.error(
                "the webhook's certificate can't be used: %s; looking again every %g s", message, _LOOK_SECONDS
            )
            self._complaint = message
