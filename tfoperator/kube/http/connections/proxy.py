"""Finds the HTTP proxy for the API server, and opens a tunnel through it.

A proxy in the kubeconfig overrides the proxy in the environment. `NO_PROXY` has the same meaning as for Go programs. So
a value that works for kubectl, for example with networks in CIDR notation, works here too.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.config.cluster import is_loopback
from tfoperator.kube.http.connections.answer import ResponseReader
from tfoperator.kube.protocol.errors import ConfigError


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy that opens tunnels (CONNECT)."""

    host: str
    port: int
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self.host}:{self.port})"

    def open_tunnel(self, sock: socket.socket, host: str, port: int, clock: Clock, timeout: float) -> None:
        """Send CONNECT on a connection to the proxy, so that the proxy forwards all later bytes to `host`.

        Raises OSError if the proxy refuses, if its response does not arrive within about `timeout` seconds, or if the
        connection breaks. Raises EOFError for an incomplete response, and HttpParserError for a malformed response.
        """
        server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {server} HTTP/1.1", f"Host: {server}", *map(": ".join, self.headers), "", ""]
        sock.sendall("\r\n".join(lines).encode("ascii"))
        answer = ResponseReader(sock, clock=clock, late_at=clock.monotonic() + timeout)
        answer.begin()
        if not 200 <= answer.status < 300:
            raise OSError(f"the proxy answers {answer.status}")


def choose_proxy(
    url: str, scheme: str, host: str, port: int, *, environ: Mapping[str, str] = os.environ
) -> Proxy | None:
    """Return the proxy at `url`, or else the environment's proxy for this server.

    Return None for a direct connection. Raises ConfigError if the proxy is unusable.
    """
    if not url:
        variable = f"{scheme}_proxy"
        url = environ.get(variable) or environ.get(variable.upper()) or ""
        no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
        if not url or bypasses_proxy(host, port, no_proxy):
            return None
    try:
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        proxy_host, proxy_port = parts.hostname, parts.port or 80
    except ValueError:
        raise ConfigError("a proxy must be given as http://host:port: its port is malformed") from None
    if parts.scheme != "http":
        raise ConfigError(f"a proxy must be given as http://host:port: {parts.scheme} proxies are not supported")
    if not proxy_host:
        raise ConfigError("a proxy must be given as http://host:port: its host is missing")
    headers: tuple[tuple[str, str], ...] = ()
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = (("Proxy-Authorization", "Basic " + b64encode(pair.encode()).decode("ascii")),)
    return Proxy(proxy_host, proxy_port, headers)


def bypasses_proxy(host: str, port: int, no_proxy: str) -> bool:
    """Return whether to connect without a proxy: `NO_PROXY` contains the server, or its host is a loopback host.

    Entries are `*`, names (which include their subdomains), addresses or networks. Each entry except `*` may end with a
    port.
    """
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    for entry in filter(None, (part.strip().lower() for part in no_proxy.split(","))):
        name, colon, wanted = entry.rpartition(":")
        if colon and wanted.isdigit() and (":" not in name or name.endswith("]")):
            if int(wanted) != port:
                continue
            entry = name
        if entry == "*" or (_in_network(address, entry) if address else _in_domain(host.lower(), entry)):
            return True
    return False


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False


def _in_domain(host: str, entry: str) -> bool:
    domain = entry.removeprefix("*").removeprefix(".")
    return host.endswith("." + domain) or (host == domain and not entry.startswith((".", "*")))
