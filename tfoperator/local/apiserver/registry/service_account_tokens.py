"""Tokens of service accounts: `POST serviceaccounts/NAME/token`. A kubelet requests these tokens for its pods.

Each run of the server has its own keys. The server publishes the public keys as kube-apiserver does (OpenID Connect
discovery), so the receiver of a token can verify the token. The server itself does not accept these tokens in requests:
it accepts only its own bearer token.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import uuid
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tfoperator.kube.views.objects import timestamp
from tfoperator.local.apiserver.errors import (
    StatusError,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.registry.registry import Registry
from tfoperator.local.apiserver.resource_types import PODS, SERVICE_ACCOUNTS

ISSUER = "https://kubernetes.default.svc.cluster.local"
KEYS_PATH, KEYS_TYPE = "/openid/v1/jwks", "application/jwk-set+json"
DISCOVERY_PATH = "/.well-known/openid-configuration"

_DEFAULT_ACCOUNT = "default"
_DEFAULT_SECONDS, _MIN_SECONDS, _MAX_SECONDS = 3600, 600, 1 << 32


class _Bound(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    audiences: tuple[str, ...] = ()
    expiration_seconds: int | None = None
    bound_object_ref: _Bound | None = None


class _TokenRequest(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class TokenIssuer:
    """Signs tokens with its own key. The key is created for the first request. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _key
        self._key: Any = None

    def issue(self, registry: Registry, namespace: str, name: str, body: Json, now: datetime) -> Json:
        """Return the TokenRequest, including its status. Raises StatusError in the same cases as kube-apiserver.

        A client can get a token of the account `default` even if this account was deleted, because the account is
        created again at once.
        """
        try:
            spec = msgspec.convert(body, _TokenRequest).spec
        except msgspec.ValidationError as error:
            raise bad_request(f"couldn't read the TokenRequest: {error}") from None
        seconds = _DEFAULT_SECONDS if spec.expiration_seconds is None else spec.expiration_seconds
        if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
            detail = "may not specify a duration less than 10 minutes"
            raise invalid(SERVICE_ACCOUNTS, name, [invalid_value("spec.expirationSeconds", seconds, detail)])
        about: Json = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": _uid(registry, namespace, name)},
        }
        if spec.bound_object_ref is not None:
            about["pod"] = _bound_pod(registry, namespace, spec.bound_object_ref)
        expires = now + timedelta(seconds=seconds)
        claims = {
            "iss": ISSUER,
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "aud": list(spec.audiences or (ISSUER,)),
            "iat": int(now.timestamp()),
            "nbf": int(now.timestamp()),
            "exp": int(expires.timestamp()),
            "jti": str(uuid.uuid4()),
            "kubernetes.io": about,
        }
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now)},
            "spec": {**body.get("spec", {}), "expirationSeconds": seconds},
            "status": {"token": self._sign(claims), "expirationTimestamp": timestamp(expires)},
        }

    def document(self, path: str) -> Json | None:
        """Return the document that is published at a path. Return None if there is none."""
        if path == DISCOVERY_PATH:
            return {
                "issuer": ISSUER,
                "jwks_uri": ISSUER + KEYS_PATH,
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            }
        return {"keys": [self._public()]} if path == KEYS_PATH else None

    def _sign(self, claims: Json) -> str:
        import jwt  # imported for the first token only

        return jwt.encode(claims, self._private(), algorithm="ES256", headers={"kid": self._public()["kid"]})

    def _private(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric import ec

        with self._lock:
            if self._key is None:
                self._key = ec.generate_private_key(ec.SECP256R1())
            return self._key

    def _public(self) -> Json:
        numbers = self._private().public_key().public_numbers()
        x, y = (base64.urlsafe_b64encode(n.to_bytes(32, "big")).rstrip(b"=").decode() for n in (numbers.x, numbers.y))
        name = hashlib.sha256(f"{x}.{y}".encode()).hexdigest()[:32]
        return {"use": "sig", "kty": "EC", "kid": name, "crv": "P-256", "alg": "ES256", "x": x, "y": y}


def _uid(registry: Registry, namespace: str, name: str) -> str:
    try:
        return str(registry.get(SERVICE_ACCOUNTS, namespace, name).metadata["uid"])
    except StatusError:
        if name != _DEFAULT_ACCOUNT:
            raise
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{ISSUER}/{namespace}/{name}"))


def _bound_pod(registry: Registry, namespace: str, bound: _Bound) -> Json:
    if bound.kind != "Pod":
        raise bad_request(f"cannot bind token for serviceaccount to type {bound.kind!r}")
    try:
        uid = str(registry.get(PODS, namespace, bound.name).metadata["uid"])
    except StatusError:
        raise not_found(PODS, bound.name) from None
    if bound.uid not in ("", uid):
        message = f"the UID in the bound object reference ({bound.uid}) does not match the UID in record ({uid})"
        raise conflict(PODS, bound.name, message)
    return {"name": bound.name, "uid": uid}
