"""The limits for the clients of a server, and the source to which a connection belongs."""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple

import msgspec

_BACKLOG = 4096
"""The length of the kernel's accept queue. If this queue is full, the kernel drops the first packet of each new
connection, and the client tries again after a second.
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

    - `connections` limits the connections of all clients together.
    - `per_source` limits the connections from a single IPv4 address, or from an IPv6 network of 64 bits.
    - `head` limits a request's first line and headers.
    - `body` limits a request's body.
    - `received` limits the bodies of all requests that are not answered yet, together.
    - `unsent` limits all bytes of responses that clients have not read yet, together.
    - `handshake_seconds` is the time for the TLS handshake.
    - `request_seconds` is the time for sending a request, and for reading a response.
    - `idle_seconds` is the time for which a connection may be idle after a request. With 0, each connection has only
      one request.
    - `waits_for_readers` means that a client has unlimited time to read a response: a user may read a log slowly.
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
    """Return the source of a connection from this IP address: an IPv4 address, or an IPv6 network of 64 bits.

    A machine can use all IPv6 addresses of its network of 64 bits. So these addresses count as one source.
    A text that is not an IP address is its own source.
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
    """Return a non-blocking socket that listens at this address.

    Raises ListenError, whose message contains `name`, if the server can't listen there.
    """
    where, family = (f"[{host}]:{port}", socket.AF_INET6) if ":" in host else (f"{host}:{port}", socket.AF_INET)
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(f"can't listen on {where} for {name}: {error.strerror or error}") from None
    listening.setblocking(False)
    return listening
