"""A certificate for one run of the server: client libraries send a bearer token over TLS only, also on loopback.

It is its own authority, so a kubeconfig can carry it as `certificate-authority-data` and nothing on the machine has to
trust it. The key is made at start and never outlives the process.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["ServerCertificate", "make_certificate"]

_VALIDITY = timedelta(days=365)  # far beyond the life of a process that keeps all its state in memory


class ServerCertificate(msgspec.Struct, frozen=True):
    """What a server presents (`context`) and what its clients need in order to believe it (`pem`)."""

    pem: bytes
    context: ssl.SSLContext


def make_certificate(address: str) -> ServerCertificate:
    """A fresh P-256 key and a certificate for a loopback address and `localhost`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tfoperator embedded API server")])
    # The system's time, whatever clock the server runs on: it is what TLS libraries compare with.
    now = datetime.now(UTC)
    alternatives = [x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")]
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ServerCertificate(pem, _server_context(pem, private))


def _server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The ssl module reads files only; this one is readable by its owner, and gone again at once.
    with tempfile.TemporaryDirectory(prefix="tfoperator-") as folder:
        path = Path(folder) / "server.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + key)
        context.load_cert_chain(path)
    return context
