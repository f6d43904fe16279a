"""X.509 certificates of servers: made, read, followed in files and shown."""

from tfoperator.certificates.files import CertificateFiles
from tfoperator.certificates.pem import (
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
from tfoperator.certificates.tls import server_context

__all__ = [
    "CertificateError",
    "CertificateFiles",
    "Facts",
    "KeyPair",
    "check_key",
    "facts",
    "is_issued_by",
    "make_authority",
    "make_certificate",
    "server_context",
    "split",
]
