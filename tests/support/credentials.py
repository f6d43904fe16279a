"""Kubeconfigs and certificates for tests with credentials of their own."""

from __future__ import annotations

import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hack.controlplane import ControlPlane


def kubeconfig_of(
    plane: ControlPlane,
    user: dict[str, Any],
    path: Path,
    *,
    namespace: str = "",
    ca: Path | None = None,
    server: str = "",
) -> Path:
    """Write a kubeconfig for the API server of a control plane with this user, as one step, as a login tool does.

    `ca` is the file with the certificate authority, and `server` the URL, instead of the plane's own.
    """
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = user
    if namespace:
        config["contexts"][0]["context"]["namespace"] = namespace
    if ca is not None:
        config["clusters"][0]["cluster"]["certificate-authority"] = str(ca)
    if server:
        config["clusters"][0]["cluster"]["server"] = server
    return written(path, json.dumps(config))


def written(path: Path, text: str | bytes) -> Path:
    """Replace a file as one step."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(text.encode() if isinstance(text, str) else text)
    new.chmod(path.stat().st_mode if path.exists() else 0o600)
    new.replace(path)
    return path


class Pair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority for client certificates."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clients")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._builder(self._name, self._key).add_extension(constraints, critical=True)
        self.certificate = _pem(certificate.sign(self._key, hashes.SHA256()))

    def client(self, user: str) -> Pair:
        """Return the certificate of a user of an API server that trusts this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = self._builder(name, key).add_extension(usage, critical=False)
        return Pair(_pem(certificate.sign(self._key, hashes.SHA256())), _pem_key(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return _valid_now(subject, self._name, key)


def self_signed(name: str, address: str) -> Pair:
    """Return a serving certificate for an address, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    hosts = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        _valid_now(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(hosts, critical=False)
    )
    return Pair(_pem(certificate.sign(key, hashes.SHA256())), _pem_key(key))


def _valid_now(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
