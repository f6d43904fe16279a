"""A server and how to reach it: the settings that all connections to one server share."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.config.tls import TlsContexts, TlsOptions
from tfoperator.kube.http.connections.proxy import Proxy, choose_proxy


class Destination(msgspec.Struct, frozen=True):
    """A server and how to reach it. Transports share this object, and so share its TLS contexts. Thread-safe."""

    address: tuple[str, int]
    """The server's host and port."""
    tls: TlsContexts | None
    """The TLS contexts; None for plain HTTP."""
    server_name: str
    """The name that the server's certificate must contain."""
    proxy: Proxy | None
    """The HTTP proxy; None for a direct connection."""
    host: str
    """The host and the port as in the server's URL."""
    prefix: str
    """The path of the server's URL, without a trailing slash. The path of every request begins with this path."""


def find_destination(server: str, tls: TlsOptions | None, *, clock: Clock, proxy_url: str = "") -> Destination:
    """Return the destination for a server's URL. Raises ConfigError if the proxy for this server is unusable."""
    url = urlsplit(server)
    contexts = TlsContexts(tls or TlsOptions(), clock=clock) if url.scheme == "https" else None
    address = (url.hostname or "", url.port or (443 if contexts else 80))
    return Destination(
        address=address,
        tls=contexts,
        server_name=(tls.server_name if tls else "") or address[0],
        proxy=choose_proxy(proxy_url, url.scheme, *address),
        host=url.netloc,
        prefix=url.path.rstrip("/"),
    )
