"""Serves `/metrics` over HTTPS, for clients that the API server authorizes (`--metrics-secure`).

The module is imported only if this option is set. The certificate comes from files, or the operator generates it. With
a generated certificate, the connection is encrypted, but clients can't verify the server, because they don't know its
authority.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.client import Client
from tfoperator.servers.certificates.files import CertificateFiles
from tfoperator.servers.certificates.pem import make_authority, make_certificate
from tfoperator.servers.certificates.tls import TlsServer
from tfoperator.servers.endpoints.access_reviews import AccessReviews, bearer_token
from tfoperator.servers.endpoints.endpoint import LIMITS, Endpoint
from tfoperator.servers.http.limits import Address, Limits
from tfoperator.servers.http.messages import Answer, Request

OWN_VALIDITY = timedelta(days=30)
_REFUSED = {
    HTTPStatus.UNAUTHORIZED: "a bearer token that the API server accepts is needed: Authorization: Bearer TOKEN",
    HTTPStatus.SERVICE_UNAVAILABLE: "your permission can't be checked at the moment; try again later",
}


class SecureEndpoint(TlsServer, Endpoint):
    """An endpoint over TLS, whose clients need a bearer token and the right to `get` the path in Kubernetes.

    Call `start()` once, then `stop()`. With `cert_dir`, the endpoint uses `tls.crt` and `tls.key` in this directory,
    and reads them again when they change. Until these files exist, the endpoint closes each connection. Without
    `cert_dir`, the endpoint generates a certificate. `stop()` closes `client`.
    """

    def __init__(
        self,
        address: Address,
        routes: Mapping[str, Callable[[], Answer]],
        client: Client,
        *,
        name: str,
        cert_dir: str = "",
        limits: Limits = LIMITS,
        clock: Clock | None = None,
    ) -> None:
        """Listen on the address. With port 0, select a free port. Raises ListenError if that is impossible."""
        self._clock = clock or SystemClock()
        self._client = client
        self._reviews = AccessReviews(client, clock=self._clock)
        self._renew_at: datetime | None = None
        self._files: CertificateFiles | None = None
        super().__init__(address, routes, name=name, limits=limits)
        if cert_dir:
            self._files = CertificateFiles(
                Path(cert_dir), owner=name, on_certificate=self.show, on_expiry=lambda _: None, clock=self._clock
            )
        else:
            self._make_certificate()

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the current certificate. First renew a generated certificate if it is due."""
        if self._renew_at is not None and self._clock.now() >= self._renew_at:
            self._make_certificate()
        return super().context()

    def start(self) -> None:
        """Start to respond to requests. With `cert_dir`, also start to watch the files of the certificate."""
        super().start()
        if self._files is not None:
            self._files.start()

    async def respond(self, request: Request) -> Answer:
        """Return the content of the path. Without an authorization by the API server, return 401, 403 or 503."""
        if not self.serves(request):
            return await super().respond(request)  # this refuses the request, and needs no review of the token
        token = bearer_token(request.headers.get("authorization", ""))
        access = await self._reviews.check(token, path=request.path, verb="get", source=request.source)
        if access.status is HTTPStatus.OK:
            return await super().respond(request)
        message = _REFUSED.get(access.status) or _forbidden(access.user, request.path)
        return Answer(f"{message}\n".encode(), access.status)

    def stop(self) -> None:
        """Stop listening and reviewing requests, and end all threads. Idempotent."""
        if self._files is not None:
            self._files.stop()
        self._client.close()
        super().stop()
        self._reviews.close()

    def _make_certificate(self) -> None:
        now = self._clock.now()
        hosts = {"localhost", "127.0.0.1", socket.gethostname() or "localhost"}
        authority = make_authority("tfoperator metrics", now, OWN_VALIDITY)
        self.show(make_certificate(authority, hosts, now, OWN_VALIDITY))
        self._renew_at = now + OWN_VALIDITY * 2 / 3


def _forbidden(user: str, path: str) -> str:
    return f"{user[:256]} may not get {path}: bind a ClusterRole with the verb get for this nonResourceURL to this user"
