"""Verifies the service account tokens of pods locally, with the public keys of the API server.

The API server signs the tokens. Every service account may read the API server's public keys and issuer (OpenID Connect
discovery). The operator fetches the keys at the start, every few minutes, and when a token names an unknown key. So a
report normally causes no API call. A token is valid even after its pod was deleted, so the caller must also look up the
pod in the operator's cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import jwt
import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.protocol.errors import UNDECODABLE, KubeError

logger = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
"""The allowed algorithms. All of them are asymmetric. With a symmetric algorithm such as HS256, anybody who knows the
public key could sign tokens. Kubernetes signs with RS256 or ES*.
"""

MAX_TOKEN = 8 << 10
"""The maximum bytes of a token. A pod's token has about one thousand bytes."""

_CLOCK_LEEWAY = 10.0
"""The maximum seconds by which the clocks of the API server and of the operator may differ."""
_REFRESH_SECONDS = 300.0
_SOONEST = 10.0
"""After `_REFRESH_SECONDS`, the keys are fetched again. `_SOONEST` is the minimum number of seconds between two
fetches, because any client can send tokens that name unknown keys.
"""
_MAX_KEYS = 64


class TokenRefused(Exception):
    """The token does not permit a report for this job.

    The message names the reason, and contains no part of the token itself.
    """


class KeysUnavailable(Exception):
    """The keys of the API server can't be fetched, so tokens can't be verified at the moment."""


class PodIdentity(msgspec.Struct, frozen=True):
    """The pod for which the API server has issued a token."""

    namespace: str
    name: str
    uid: str


class PublicKeys(msgspec.Struct, frozen=True):
    """The public keys (JWKs, by their ID `kid`) for the tokens of an issuer."""

    issuer: str
    keys: Mapping[str, jwt.PyJWK]


def parse_keys(discovery: bytes, keys: bytes) -> PublicKeys:
    """Decode the responses for `/.well-known/openid-configuration` and `/openid/v1/jwks`.

    Raises ValueError if a response is not valid. Keys that are neither RSA nor EC keys, and keys that are not for
    signatures, are skipped.
    """
    try:
        issuer = msgspec.json.decode(discovery, type=dict[str, Any]).get("issuer")
        listed = msgspec.json.decode(keys, type=dict[str, Any]).get("keys")
    except UNDECODABLE as error:
        raise ValueError(f"the API server's keys can't be read: {error}") from None
    if not isinstance(issuer, str) or not issuer or not isinstance(listed, list):
        raise ValueError("the API server's discovery document does not contain an issuer or keys")
    by_id: dict[str, jwt.PyJWK] = {}
    for key in listed[:_MAX_KEYS]:
        if not isinstance(key, dict) or key.get("use", "sig") != "sig" or key.get("kty") not in ("RSA", "EC"):
            continue
        try:
            parsed = jwt.PyJWK.from_dict(key)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            logger.warning("a key of the API server can't be used: %s", error)
            continue
        if parsed.algorithm_name in ALGORITHMS and parsed.key_id:
            by_id[parsed.key_id] = parsed
    if not by_id:
        raise ValueError("the API server has not published a usable key")
    return PublicKeys(issuer, by_id)


def verify(token: str, keys: PublicKeys, audience: str) -> PodIdentity:
    """Verify the signature, issuer, audience and expiry of a token. Return the pod for which it was issued.

    Raises TokenRefused if one of these checks fails, or if the token is not for a pod. Raises UnknownKey if the token's
    key is not among these keys.
    """
    if len(token) > MAX_TOKEN:
        raise TokenRefused("the token is too long")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise TokenRefused("the token is not a JWT") from None
    name = header.get("kid")
    key = keys.keys.get(name) if isinstance(name, str) else None
    if key is None:
        raise UnknownKey("the token was not signed by this cluster")
    try:
        # Allow only the algorithm of the key. The header of the token can name any algorithm.
        claims = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=audience,
            issuer=keys.issuer,
            leeway=_CLOCK_LEEWAY,
            options={"require": ["exp", "aud", "iss"]},
        )
    except jwt.ExpiredSignatureError:
        raise TokenRefused("the token has expired: read its file again") from None
    except jwt.InvalidAudienceError:
        raise TokenRefused("the token was made for another job or service") from None
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise TokenRefused(f"the token is not valid ({type(error).__name__})") from None
    return _pod_of(claims)


class UnknownKey(TokenRefused):
    """The token names an unknown key. The API server may have started to use this key after the last fetch."""


def _pod_of(claims: Mapping[str, Any]) -> PodIdentity:
    about = claims.get("kubernetes.io")
    pod = about.get("pod") if isinstance(about, dict) else None
    namespace = about.get("namespace") if isinstance(about, dict) else None
    name, uid = (pod.get("name"), pod.get("uid")) if isinstance(pod, dict) else (None, None)
    if not (isinstance(namespace, str) and isinstance(name, str) and isinstance(uid, str)) or not uid:
        raise TokenRefused("the token is bound to no pod")
    return PodIdentity(namespace, name, uid)


class TokenVerifier:
    """Verifies tokens with the API server's keys, which it fetches and caches.

    `verify` and `refresh` may block while they fetch keys. Call them only from a single thread. Any thread may call
    `known`.
    """

    def __init__(self, fetch: Callable[[str], bytes], *, clock: Clock) -> None:
        """`fetch` returns the body of a GET request for a path of the API server, or raises KubeError."""
        self._fetch = fetch
        self._clock = clock
        self._tried_at = float("-inf")
        self._keys: PublicKeys | None = None  # replaced as a whole, so `known` needs no lock
        self._fetched_at = float("-inf")

    def known(self, token: str, audience: str) -> PodIdentity | None:
        """Return the pod for which a token was issued, without blocking.

        Return None if the keys must be fetched first. The caller must then call `verify`, in a thread that may block.
        Raises TokenRefused if the token is not valid.
        """
        keys = self._keys
        if keys is None or self._clock.monotonic() - self._fetched_at > _REFRESH_SECONDS:
            return None
        try:
            return verify(token, keys, audience)
        except UnknownKey:
            if self._may_fetch():
                return None
            raise

    def verify(self, token: str, audience: str) -> PodIdentity:
        """Fetch the keys if necessary, and return the pod for which the token was issued.

        Raises TokenRefused if the token is not valid, or KeysUnavailable if no fetch of the keys has succeeded yet.
        """
        self.refresh()
        keys = self._keys
        if keys is None:
            raise KeysUnavailable("the operator has not read the keys that sign the tokens of pods yet; try again")
        return verify(token, keys, audience)

    def _may_fetch(self) -> bool:
        return self._clock.monotonic() - self._tried_at >= _SOONEST

    def refresh(self) -> None:
        """Fetch the keys, unless the last fetch was less than 10 s ago. If the fetch fails, the old keys are kept."""
        if not self._may_fetch():
            return
        self._tried_at = self._clock.monotonic()
        try:
            keys = parse_keys(self._fetch("/.well-known/openid-configuration"), self._fetch("/openid/v1/jwks"))
            self._keys, self._fetched_at = keys, self._clock.monotonic()
        except (KubeError, ValueError) as error:
            logger.warning("can't get the keys that sign the tokens of pods: %s", error)
        finally:
            # Set again after the fetch, which may be slow: requests that have waited for it must not fetch again.
            self._tried_at = self._clock.monotonic()
