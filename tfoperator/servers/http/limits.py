"""The limits for the clients of a server, and the source to which a connection belongs."""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple

import msgspec

_BACKLOG = 4096
"""The length of the kernel's accept queue. When this queue is full, the kernel drops new connections of all clients for
a second.
"""


class Address(NamedTuple):
    """The address on which a server listens. The host "" means every network interface."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenError(OSError):
    """The server can't listen on the address. The message names the address."""


class Limits(msgspec.Struct, frozen=True):
    """The limits for clients. Sizes are in bytes, and times are in seconds.

    `per_source` limits the connections from one IPv4 address, or from one IPv6 network of 64 bits. `received` limits
    the bodies that were received and not answered yet. `unsent` limits the responses that clients have not read yet.
    Both count all connections together. `head` limits the size of a request's line and headers. Clients written in Go
    send some hundred bytes. `idle_seconds` is how long a connection may be idle after a request. 0 means that each
    connection has only one request. With `waits_for_readers`, a client may read a response as slowly as it likes,
    because a user may look at a log page by page.
    """

    connections: int = 128
    per_source: int = 32
    head: int = 16 << 10
    body: int = 0
    received: int = 0
    unsent: int = 16 << 20
    handshake_seconds: float = 10.0
    request_seconds: float = 10.0
    idle_seconds: float = 0.0
    waits_for_readers: bool = False


def source_of(address: str) -> str:
    """Return the source of a connection.

    It is an IPv4 address or an IPv6 network of 64 bits, because one machine can use all addresses of such a network.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, 64), strict=False))
        parsed = parsed.ipv4_mapped
    return str(parsed)


def listen(host: str, port: int, name: str) -> socket.socket:
    """Return a socket that listens. Its calls do not block. Raises ListenError."""
    where, family = (f"[{host}]:{port}", socket.AF_INET6) if ":" in host else (f"{host}:{port}", socket.AF_INET)
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(f"can't listen on {where} for {name}: {error.strerror or error}") from None
    listening.setblocking(False)
    return listening
