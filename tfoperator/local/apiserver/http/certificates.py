"""A certificate for one run of the server: client libraries send a bearer token over TLS only, also on loopback.

A kubeconfig carries its authority as `certificate-authority-data`, so nothing on the machine has to trust it. The keys
are made at start and never outlive the process.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import msgspec

from tfoperator.servers import certificates

_VALIDITY = timedelta(days=365)  # far beyond the life of a process that keeps all its state in memory


class ServerCertificate(msgspec.Struct, frozen=True):
    """What a server presents (`context`) and the authority that its clients have to trust (`pem`)."""

    pem: bytes
    context: ssl.SSLContext


def make_certificate(address: str) -> ServerCertificate:
    """A fresh certificate for a loopback address and `localhost`."""
    # The system's time, whatever clock the server runs on: it is what TLS libraries compare with.
    now = datetime.now(UTC)
    authority = certificates.make_authority("tfoperator embedded API server", now, _VALIDITY)
    pair = certificates.make_certificate(authority, (address, "localhost"), now, _VALIDITY)
    return ServerCertificate(authority.certificate, certificates.server_context(pair))
