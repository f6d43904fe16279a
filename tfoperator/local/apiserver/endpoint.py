"""The address of an embedded API server. The address is reserved before the server exists, so clients can be created
first.
"""

from __future__ import annotations

import base64
import secrets
from typing import Any

from tfoperator.local.apiserver.http.listener import listen_on_loopback, make_certificate
from tfoperator.local.apiserver.http.reviews import USER
from tfoperator.local.runtime.loopback_network import LOOPBACK


class ReservedEndpoint:
    """A reserved address on loopback.

    Each reserved address has its own certificate and token. The API server listens at the address, and closes the
    socket when the server stops. Immutable, thread-safe. If a client connects before the server has started, its
    connection waits.
    """

    def __init__(self, port: int = 0) -> None:
        """Reserve the address; port 0 selects a free port. Raises OSError if the port is in use."""
        self.socket = listen_on_loopback(port)
        """The listening socket, for the server."""
        self.url = f"https://{LOOPBACK}:{self.socket.getsockname()[1]}"
        """The server's URL."""
        self.certificate, self.context = make_certificate()
        """The certificate (PEM) with which clients verify the server, and the TLS context. The server is its own CA."""
        self.token = secrets.token_urlsafe(32)
        """The bearer token. Every request must contain it, except health checks."""

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig for this server. `kubectl` and every other client can use it."""
        name = USER
        authority = base64.b64encode(self.certificate).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
            "current-context": name,
        }
