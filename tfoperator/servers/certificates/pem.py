"""Makes and reads X.509 certificates in PEM form: certificate authorities, and server certificates that they sign.

The keys are P-256 keys, which every API server accepts. A TLS handshake with such a key needs a tenth of the CPU time
that the server needs with an RSA key. Times in a certificate are in whole seconds.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCK_SKEW = timedelta(hours=1)
"""The validity of a new certificate begins this long before now. Otherwise an API server whose clock is behind would
refuse the certificate, because its validity had not begun.
"""

_PEM_HEADER = b"-----BEGIN CERTIFICATE-----"


class CertificateError(ValueError):
    """The PEM text is not a valid certificate or key. The message contains no part of the text, which may be secret."""


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, both in PEM form. Intermediate certificates may follow the certificate."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(...)"


class CertificateFacts(msgspec.Struct, frozen=True):
    """The validity of a certificate, and its host names and IP addresses (subjectAltName)."""

    begins: datetime
    ends: datetime
    hosts: frozenset[str]


def make_authority(common_name: str, now: datetime, validity: timedelta) -> KeyPair:
    """Return a new certificate authority, valid from now on. It can sign server certificates, but no authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    builder = (
        _builder(name, name, key.public_key(), now, now + validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def make_certificate(authority: KeyPair, hosts: Collection[str], now: datetime, validity: timedelta) -> KeyPair:
    """Return a new server certificate for these host names and IP addresses. It expires no later than its authority.

    Raises CertificateError if the authority is not valid.
    """
    issuer, issuer_key = _certificate(authority.certificate), _key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + validity, issuer.not_valid_after_utc)
    builder = (
        _builder(_name(min(hosts, key=len)[:64]), issuer.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in sorted(hosts)]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def facts(certificate: bytes) -> CertificateFacts:
    """Return the facts about the first certificate of a PEM text. Raises CertificateError if it is not valid."""
    parsed = _certificate(certificate)
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        hosts: frozenset[str] = frozenset()
    else:
        addresses = map(str, names.get_values_for_type(x509.IPAddress))
        hosts = frozenset((*names.get_values_for_type(x509.DNSName), *addresses))
    return CertificateFacts(parsed.not_valid_before_utc, parsed.not_valid_after_utc, hosts)


def is_issued_by(certificate: bytes, authority: bytes) -> bool:
    """Return whether the key of an authority signed a certificate.

    Raises CertificateError if one of the two PEM texts is not a valid certificate.
    """
    try:
        _certificate(certificate).verify_directly_issued_by(_certificate(authority))
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def check_key(pair: KeyPair) -> None:
    """Raise CertificateError unless the key belongs to the certificate."""
    certificate = _certificate(pair.certificate)
    try:
        public_key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError("the public key of the certificate can't be read") from None
    if _key(pair.key).public_key() != public_key:
        raise CertificateError("the private key does not belong to the certificate")


def split(bundle: bytes) -> tuple[bytes, ...]:
    """Return the certificates of a PEM text one by one.

    White space is normalized, so that equal certificates are equal bytes.
    """
    return tuple(_PEM_HEADER + rest.rstrip() + b"\n" for rest in bundle.split(_PEM_HEADER)[1:])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    # For a certificate with a short validity, the begin moves back by at most a tenth of the validity. Otherwise the
    # certificate would look old at once, and would be renewed too early.
    skew = min(_CLOCK_SKEW, (ends - begins) / 10)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - skew)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    # In the form of `split`, so that a bundle's certificates can be compared with new certificates.
    (public,) = split(certificate.public_bytes(serialization.Encoding.PEM))
    return KeyPair(public, private)


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except (ValueError, x509.InvalidVersion):
        raise CertificateError("it has no certificate in PEM form") from None


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError("it has no unencrypted private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the private key must be a key of an elliptic curve")
    return key
