"""Reports, jobs and signed tokens for the tests of the progress server."""

import base64
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.unit.controller.builders import make_job
from tfoperator.api.v1.parts.progress import Metric, TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.servers.progress.reports import ProgressReport

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ISSUER = "https://kubernetes.default.svc.cluster.local"


def report(replica: str = "worker-0", after: float = 0.0, **members: Any) -> ProgressReport:
    """A report that came so many seconds after NOW; `metrics` as a mapping."""
    metrics = tuple(Metric(name, value) for name, value in members.pop("metrics", {}).items())
    return ProgressReport(replica=replica, time=NOW + timedelta(seconds=after), metrics=metrics, **members)


def job(progress: TrainingProgress | None = None, **replicas: int) -> TFJob:
    """A job with this progress in its status."""
    made = make_job(replicas or {"Worker": 4})
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, progress=progress))


class Cluster:
    """A key that signs tokens as an API server does, and what it publishes about it."""

    def __init__(self, *, rsa_key: bool = False, kid: str = "key-1") -> None:
        self.kid = kid
        self.algorithm = "RS256" if rsa_key else "ES256"
        made = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        self.private: Any = made
        self.fetched: list[str] = []

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key."""
        algorithm: Any = jwt.get_algorithm_by_name(self.algorithm)
        public = json.loads(algorithm.to_jwk(self.private.public_key()))
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def fetch(self, path: str) -> bytes:
        """Return the API server's answer."""
        self.fetched.append(path)
        if path == "/.well-known/openid-configuration":
            return json.dumps({"issuer": ISSUER}).encode()
        assert path == "/openid/v1/jwks"
        return json.dumps({"keys": [self.jwk]}).encode()

    def claims(self, audience: str, **changes: Any) -> dict[str, Any]:
        """Return the claims of the token of pod `mnist-worker-0` in namespace `ns`."""
        about = {"namespace": "ns", "pod": {"name": "mnist-worker-0", "uid": "mnist-worker-0-uid"}}
        now = int(time.time())
        made = {"iss": ISSUER, "aud": [audience], "iat": now, "nbf": now, "exp": now + 3600, "kubernetes.io": about}
        return {name: value for name, value in (made | changes).items() if value is not None}

    def token(self, audience: str, header: Mapping[str, Any] | None = None, **changes: Any) -> str:
        """A signed token."""
        headers = {"kid": self.kid, **(header or {})}
        return jwt.encode(self.claims(audience, **changes), self.private, algorithm=self.algorithm, headers=headers)


def forged(header: Mapping[str, Any], claims: Mapping[str, Any], signature: bytes = b"") -> str:
    """A token with any header and signature."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
