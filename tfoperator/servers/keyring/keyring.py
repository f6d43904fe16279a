"""A server's certificate, the authorities that vouch for it, and how they are renewed without a failed request.

An authority signs one certificate, and is made known a whole period before it does: beside the present certificate a
keyring holds the authority of the *next* one. So when a certificate is renewed, every client has trusted its issuer
for weeks, and replicas may take it up one after the other; the issuer of the one before stays trusted meanwhile. No key
of an authority that has signed something in use exists any more. Pure, but for the randomness of keys.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from tfoperator.servers.certificates import (
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

_RENEW_AT = 2 / 3
"""The part of its life after which a certificate is renewed: as cert-manager does, which leaves a month of 90 days."""

_AUTHORITY_NAME = "tfoperator server CA"

_AUTHORITY_LIVES = 4
"""An authority's life, in lives of certificates: it waits 2/3 of one before it signs, and outlasts what it signs."""

_TRUSTED_LIMIT = 4
"""The next issuer, the present one, the one before, and one to spare for a replica that was long cut off."""

_CERTIFICATE, _KEY, _BUNDLE, _NEXT_KEY = "tls.crt", "tls.key", "ca.crt", "next-ca.key"


class Keyring(msgspec.Struct, frozen=True):
    """A server certificate, the authorities to trust (PEM, the newest first), and the newest one's key.

    `issuer` is the one of them that has signed the certificate.
    """

    serving: KeyPair
    trusted: tuple[bytes, ...]
    next_key: bytes
    issuer: bytes
    about: Facts

    def __repr__(self) -> str:
        return f"Keyring(until {self.about.ends})"

    @property
    def bundle(self) -> bytes:
        """All trusted authorities as one PEM text, which a CRD takes as its `caBundle`."""
        return b"".join(self.trusted)

    @property
    def renewal(self) -> datetime:
        """When the certificate is to be renewed."""
        return self.about.begins + (self.about.ends - self.about.begins) * _RENEW_AT


def new_keyring(hosts: Collection[str], now: datetime, validity: timedelta, trusted: tuple[bytes, ...] = ()) -> Keyring:
    """A certificate of a new authority; `trusted` are authorities whose certificates may still be in use."""
    issuer = make_authority(_AUTHORITY_NAME, now, validity * _AUTHORITY_LIVES)
    return _issue(issuer, (issuer.certificate, *trusted), hosts, now, validity)


def renewed(keyring: Keyring, hosts: Collection[str], now: datetime, validity: timedelta) -> Keyring:
    """The next certificate, by the authority that was made for it; a new one if that has too little time left."""
    issuer = KeyPair(keyring.trusted[0], keyring.next_key)
    if facts(issuer.certificate).ends < now + validity:
        return new_keyring(hosts, now, validity, keyring.trusted)
    return _issue(issuer, keyring.trusted, hosts, now, validity)


def is_due(keyring: Keyring, hosts: Collection[str], now: datetime) -> bool:
    """Whether the certificate is to be renewed: it is old, or lacks one of the names by which we are called."""
    return now >= keyring.renewal or not keyring.about.hosts >= set(hosts)


def encode_keyring(keyring: Keyring) -> dict[str, bytes]:
    """The data of a Secret of type kubernetes.io/tls."""
    return {
        _CERTIFICATE: keyring.serving.certificate,
        _KEY: keyring.serving.key,
        _BUNDLE: keyring.bundle,
        _NEXT_KEY: keyring.next_key,
    }


def decode_keyring(data: dict[str, bytes]) -> Keyring:
    """What `encode_keyring` wrote. Raises CertificateError if anything is missing or doesn't belong together."""
    missing = [name for name in (_CERTIFICATE, _KEY, _BUNDLE, _NEXT_KEY) if not data.get(name)]
    if missing:
        raise CertificateError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    serving, trusted = KeyPair(data[_CERTIFICATE], data[_KEY]), split(data[_BUNDLE])
    if not trusted:
        raise CertificateError(f"{_BUNDLE} holds no certificate in PEM form")
    if not all(is_issued_by(one, one) for one in trusted):
        raise CertificateError(f"{_BUNDLE} holds an authority whose own signature is wrong")
    check_key(serving)
    check_key(KeyPair(trusted[0], data[_NEXT_KEY]))
    return _keyring(serving, trusted, data[_NEXT_KEY])


def _issue(
    issuer: KeyPair, trusted: tuple[bytes, ...], hosts: Collection[str], now: datetime, validity: timedelta
) -> Keyring:
    following = make_authority(_AUTHORITY_NAME, now, validity * _AUTHORITY_LIVES)
    alive = tuple(one for one in trusted if facts(one).ends > now)
    serving = make_certificate(issuer, hosts, now, validity)
    return _keyring(serving, (following.certificate, *alive)[:_TRUSTED_LIMIT], following.key)


def _keyring(serving: KeyPair, trusted: tuple[bytes, ...], next_key: bytes) -> Keyring:
    issuer = next((one for one in trusted if is_issued_by(serving.certificate, one)), None)
    if issuer is None:
        raise CertificateError("none of the authorities has signed the certificate")
    return Keyring(serving, trusted, next_key, issuer, facts(serving.certificate))
