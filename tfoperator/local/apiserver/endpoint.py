"""The address of an embedded API server. It is reserved before the server exists, so that clients can be made first."""

from __future__ import annotations

import base64
import secrets
from typing import Any

from tfoperator.local.apiserver.http.listener import listen_on_loopback, make_certificate
from tfoperator.local.apiserver.http.reviews import USER
from tfoperator.local.runtime.loopback_network import LOOPBACK


class Endpoint:
    """A reserved address on loopback, with a certificate and a token of its own. One server serves it, and closes it.

    Immutable, thread-safe. Connections wait until the server starts.
    """

    def __init__(self, port: int = 0) -> None:
        """Reserve the address; port 0 selects a free port. Raises OSError if the port is in use."""
        self.socket = listen_on_loopback(port)
        """The listening socket, for the server."""
        self.url = f"https://{LOOPBACK}:{self.socket.getsockname()[1]}"
        """The server's URL."""
        self.certificate, self.context = make_certificate()
        """The certificate (PEM) by which clients verify the server, which is its own authority; and the TLS context."""
        self.token = secrets.token_urlsafe(32)
        """The bearer token, required in every request."""

    def kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig for this server, for `kubectl` and every other client."""
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
