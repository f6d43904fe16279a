"""The TLS context of a server, made from PEM text in memory.

The key is not written to disk, if the system permits that.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tfoperator.servers.certificates.pem import CertificateError, KeyPair
from tfoperator.servers.http.server import HttpServer


class TlsServer(HttpServer):
    """A server that answers over TLS as soon as it has a certificate. It never answers in plain text. Thread-safe."""

    _context: ssl.SSLContext | None = None

    def show(self, certificate: KeyPair) -> None:
        """Use this certificate for all new connections. Raises CertificateError if the certificate can't be used."""
        self._context = server_context(certificate)

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the current certificate."""
        return self._context

    def is_ready(self) -> bool:
        """Return whether the server has a certificate."""
        return self._context is not None


def server_context(certificate: KeyPair) -> ssl.SSLContext:
    """Return a context for HTTP/1.1 over TLS 1.2 or later.

    Raises CertificateError if the certificate and the key can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        with _as_file(certificate.certificate.rstrip() + b"\n" + certificate.key) as path:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "it must be in PEM form, without encryption"
        raise CertificateError(f"certificate and key can't be used together: {reason}") from None
    return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path for OpenSSL, which reads only files.

    On Linux, the file is in memory, because a pod may have no writable disk.
    """
    if sys.platform == "linux":
        number = os.memfd_create("certificate", os.MFD_CLOEXEC)
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{number}"
    else:
        with tempfile.TemporaryDirectory(prefix="tfoperator-") as folder:
            path = Path(folder, "server.pem")
            path.touch(mode=0o600)
            path.write_bytes(content)
            yield str(path)
