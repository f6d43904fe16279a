"""The TLS context of a server, made from a certificate and a key in memory.

On Linux, the key is never written to disk.
"""

from __future__ import annotations

import ssl

from tfoperator.base.private_files import temporary_file
from tfoperator.servers.certificates.pem import CertificateError, KeyPair
from tfoperator.servers.http.server import HttpServer


class TlsServer(HttpServer):
    """A server that responds over TLS as soon as it has a certificate. It never responds without TLS. Thread-safe."""

    _context: ssl.SSLContext | None = None

    def show(self, certificate: KeyPair) -> None:
        """Use this certificate for all new connections. Raises CertificateError if the certificate can't be used."""
        self._context = server_context(certificate)

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the current certificate, or None before the first call of `show`."""
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
        with temporary_file(certificate.certificate.rstrip() + b"\n" + certificate.key) as path:
            # For an encrypted key, OpenSSL would otherwise ask for a password on the terminal.
            context.load_cert_chain(path, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "it must be in PEM form, without encryption"
        raise CertificateError(f"certificate and key can't be used together: {reason}") from None
    return context
