"""A server's certificate, the authorities that sign certificates, and their renewal without a failed request.

Each authority signs a single certificate. A keyring contains the current certificate and the authority for the *next*
certificate. Clients already trust this authority. So when the certificate is renewed, every client has trusted the
authority of the new certificate for weeks. The replicas can switch to the new certificate one after the other, because
the previous authority also stays trusted. After an authority has signed its certificate, its key is deleted. The module
does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from tfoperator.servers.certificates.pem import (
    CertificateError,
    CertificateFacts,
    KeyPair,
    check_key,
    facts,
    is_issued_by,
    make_authority,
    make_certificate,
    split,
)

_RENEW_AT = 2 / 3
"""A certificate is renewed after this fraction of its lifetime, as in cert-manager. For a lifetime of 90 days, this is
30 days before it expires.
"""

_AUTHORITY_NAME = "tfoperator server CA"

_AUTHORITY_LIVES = 4
"""The lifetime of an authority, as a multiple of a certificate's lifetime. An authority is made 2/3 of a certificate's
lifetime before it signs, and must not expire before the certificate that it has signed. 4 leaves a reserve.
"""

_TRUSTED_LIMIT = 4
"""The maximum number of trusted authorities: for the next, the current and the previous certificate, and for the
certificate before that, which a replica may still use if it was disconnected for a long time.
"""

_CERTIFICATE, _KEY, _BUNDLE, _NEXT_KEY = "tls.crt", "tls.key", "ca.crt", "next-ca.key"


class Keyring(msgspec.Struct, frozen=True):
    """A server certificate with its key (`serving`), and the authorities that clients trust (`trusted`).

    `trusted` is in PEM form, the newest authority first. `next_key` is the key of the newest authority, which will sign
    the next certificate. `issuer` is the authority that has signed the current certificate.
    """

    serving: KeyPair
    trusted: tuple[bytes, ...]
    next_key: bytes
    issuer: bytes
    about: CertificateFacts

    def __repr__(self) -> str:
        return f"Keyring(until {self.about.ends})"

    @property
    def bundle(self) -> bytes:
        """All trusted authorities as one PEM text. This is the form of `caBundle` in a CRD."""
        return b"".join(self.trusted)

    @property
    def renewal(self) -> datetime:
        """The time at which the certificate must be renewed."""
        return self.about.begins + (self.about.ends - self.about.begins) * _RENEW_AT


def new_keyring(hosts: Collection[str], now: datetime, validity: timedelta, trusted: tuple[bytes, ...] = ()) -> Keyring:
    """Return a keyring whose certificate is signed by a new authority.

    The keyring also trusts the authorities in `trusted`, whose certificates other replicas may still use.
    """
    issuer = make_authority(_AUTHORITY_NAME, now, validity * _AUTHORITY_LIVES)
    return _issue(issuer, (issuer.certificate, *trusted), hosts, now, validity)


def renewed(keyring: Keyring, hosts: Collection[str], now: datetime, validity: timedelta) -> Keyring:
    """Return a keyring with a new certificate, which the newest authority of the old keyring signs.

    If this authority expires before the new certificate would, a new authority signs the new certificate
    (`new_keyring`).
    """
    issuer = KeyPair(keyring.trusted[0], keyring.next_key)
    if facts(issuer.certificate).ends < now + validity:
        return new_keyring(hosts, now, validity, keyring.trusted)
    return _issue(issuer, keyring.trusted, hosts, now, validity)


def is_due(keyring: Keyring, hosts: Collection[str], now: datetime) -> bool:
    """Return whether the certificate must be renewed: it is too old, or it lacks a name of the server."""
    return now >= keyring.renewal or not keyring.about.hosts >= set(hosts)


def encode_keyring(keyring: Keyring) -> dict[str, bytes]:
    """Return a keyring as the data of a Secret of type kubernetes.io/tls."""
    return {
        _CERTIFICATE: keyring.serving.certificate,
        _KEY: keyring.serving.key,
        _BUNDLE: keyring.bundle,
        _NEXT_KEY: keyring.next_key,
    }


def decode_keyring(data: dict[str, bytes]) -> Keyring:
    """Return the keyring in data that `encode_keyring` made.

    Raises CertificateError if an entry is missing or the entries don't match.
    """
    missing = [name for name in (_CERTIFICATE, _KEY, _BUNDLE, _NEXT_KEY) if not data.get(name)]
    if missing:
        raise CertificateError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    serving, trusted = KeyPair(data[_CERTIFICATE], data[_KEY]), split(data[_BUNDLE])
    if not trusted:
        raise CertificateError(f"{_BUNDLE} contains no certificate in PEM form")
    if not all(is_issued_by(authority, authority) for authority in trusted):
        raise CertificateError(f"{_BUNDLE} contains a CA certificate whose self-signature is wrong")
    check_key(serving)
    check_key(KeyPair(trusted[0], data[_NEXT_KEY]))
    return _keyring(serving, trusted, data[_NEXT_KEY])


def _issue(
    issuer: KeyPair, trusted: tuple[bytes, ...], hosts: Collection[str], now: datetime, validity: timedelta
) -> Keyring:
    following = make_authority(_AUTHORITY_NAME, now, validity * _AUTHORITY_LIVES)
    alive = tuple(authority for authority in trusted if facts(authority).ends > now)
    serving = make_certificate(issuer, hosts, now, validity)
    return _keyring(serving, (following.certificate, *alive)[:_TRUSTED_LIMIT], following.key)


def _keyring(serving: KeyPair, trusted: tuple[bytes, ...], next_key: bytes) -> Keyring:
    issuer = next((authority for authority in trusted if is_issued_by(serving.certificate, authority)), None)
    if issuer is None:
        raise CertificateError("the certificate is not signed by one of the authorities")
    return Keyring(serving, trusted, next_key, issuer, facts(serving.certificate))
