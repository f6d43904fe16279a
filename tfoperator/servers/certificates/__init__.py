"""X.509 server certificates: made, read, watched in files and served."""

from tfoperator.servers.certificates.files import CertificateFiles
from tfoperator.servers.certificates.pem import (
    CertificateError,
    Facts,
    KeyPair,
    check_key,
    facts,
    is_issued_by,
    make_authority,
    make_certificate,
    split,
)
from tfoperator.servers.certificates.tls import TlsServer, server_context

__all__ = [
    "CertificateError",
    "CertificateFiles",
    "Facts",
    "KeyPair",
    "TlsServer",
    "check_key",
    "facts",
    "is_issued_by",
    "make_authority",
    "make_certificate",
    "server_context",
    "split",
]
