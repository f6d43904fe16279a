"""Service names for pods that share the loopback interface: `service:port` becomes `127.0.0.1:<a free port>`.

Pods that run as processes have no networks of their own. So two pods can't both have a port 2222, and no DNS server
resolves `digits-ps-0.default.svc`. So the network gives each port of each service a loopback port, for as long as the
service exists. The network also replaces the service's address in the environment and the arguments of every pod: in
the pod that listens, and in the pods that connect. A service that selects several pods also has a name for each pod,
such as `digits-ps-0.digits.default.svc`. Each of these names gets ports of its own.

Three rules ensure that no other program uses such a port. The port is outside the range that the kernel uses for
outgoing connections. The TCP port is free when it is chosen. And the *UDP* port of the same number stays bound until
the port is released. So two agents on one machine avoid each other's ports, while the TCP port remains free for the
pod. The kernel closes the UDP socket whenever the agent ends, also after a crash.
"""

from __future__ import annotations

import logging
import random
import re
import socket
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"

_PORT_RANGE = range(20000, 30000)
"""The range of the loopback ports. The range is below the ephemeral ports of Linux (32768-60999) and of macOS and IANA
(49152-65535).
"""

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_ADDRESS = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?P<first>{_LABEL})"
    rf"(?:\.(?P<second>{_LABEL})(?:\.(?!svc[.:])(?P<third>{_LABEL}))?(?P<svc>\.svc(?:\.[a-z0-9.-]*[a-z0-9])?)?)?"
    r":(?P<port>\d{1,5})(?![0-9])"
)


_LISTENS = "0A"  # TCP_LISTEN in include/net/tcp_states.h


class NoFreePort(Exception):
    """There is no free loopback port: every port of the range is in use."""


class LoopbackNetwork:
    """Maps service ports to loopback ports. Thread-safe."""

    def __init__(self, *, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._lock = threading.Lock()  # guards _ports; binding a socket is fast enough to be done under it
        self._ports: dict[tuple[str, str, int], tuple[int, socket.socket]] = {}

    def port(self, namespace: str, service: str, port: int, host: str = "") -> int:
        """Return the loopback port for a port of a service, or of the pod with the hostname `host` in the service.

        The loopback port stays reserved until `release`. Raises NoFreePort if every port of the range is in use.
        """
        name = f"{host}.{service}" if host else service
        key = (namespace, name, port)
        with self._lock:
            held = self._ports.get(key)
            if held is None:
                held = self._ports[key] = self._reserve()
                logger.debug("%s.%s:%d is %s:%d", name, namespace, port, LOOPBACK, held[0])
            return held[0]

    def heard(self) -> set[tuple[str, str]]:
        """Return (namespace, name) of each pod or service that has a port at which a process listens now.

        The name is the `host` with which the method `port` was called. After a call without a host, it is the service's
        name. On systems other than Linux, the result is empty.
        """
        with self._lock:
            ports = {key: held[0] for key, held in self._ports.items()}
        listening = _listening_ports() if ports else frozenset()
        return {(key[0], key[1].partition(".")[0]) for key, port in ports.items() if port in listening}

    def release(self, namespace: str, service: str) -> None:
        """Release the ports of a deleted service, and of the pods (`host`) in it."""
        self._forget(lambda key: key[0] == namespace and (key[1] == service or key[1].endswith(f".{service}")))

    def close(self) -> None:
        """Release all ports."""
        self._forget(lambda _: True)

    def _forget(self, which: Callable[[tuple[str, str, int]], bool]) -> None:
        with self._lock:
            held = [self._ports.pop(key) for key in [*self._ports] if which(key)]
        for _, reservation in held:
            reservation.close()

    def rewrite(self, text: str, namespace: str, services: Collection[tuple[str, str]]) -> str:
        """Return a text for a pod in `namespace` with `127.0.0.1:<loopback port>` in place of every service address.

        Raises NoFreePort if a service needs a new loopback port, and every port of the range is in use.

        `[host.]name.namespace.svc[.domain]:port` is always a service address. A shorter form such as `digits-ps-0:2222`
        is ambiguous, so it is replaced only if `services`, pairs of (namespace, name), contains the service. In a
        shorter form with a host, the name of the host must begin with the name of the service, as the names of a
        TFJob's pods do.
        """
        if ":" not in text:
            return text

        def replacement(match: re.Match[str]) -> str:
            port = int(match["port"])
            target = _meant(match, namespace, services) if 0 < port < 65536 else None
            if target is None:
                return match[0]
            host, service, where = target
            return f"{LOOPBACK}:{self.port(where, service, port, host)}"

        return _ADDRESS.sub(replacement, text)

    def _reserve(self) -> tuple[int, socket.socket]:
        low, high = _ephemeral_range()
        candidates = [port for port in _PORT_RANGE if not low <= port <= high] or list(_PORT_RANGE)
        for port in self._rng.sample(candidates, k=min(200, len(candidates))):
            reservation = _try_reserve(port)
            if reservation is not None:
                return port, reservation
        raise NoFreePort("no free loopback port for a service: too many are in use on this machine")


def _listening_ports() -> frozenset[int]:
    """Return the TCP ports at which a process of this machine listens, according to the kernel's tables in /proc."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table, encoding="ascii") as stream:
            next(stream, None)
            # Find the few listening sockets by a quick search: a busy machine has thousands of other connections.
            for fields in (line.split() for line in stream if f" {_LISTENS} " in line):
                if len(fields) > 3 and fields[3] == _LISTENS:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return frozenset(ports)


def _meant(match: re.Match[str], namespace: str, services: Collection[tuple[str, str]]) -> tuple[str, str, str] | None:
    """Return the host, service and namespace of an address; None if it is not an address of a service."""
    first, second, third = match["first"], match["second"], match["third"]
    if match["svc"] is not None:
        return (first, second, third) if third else ("", first, second)
    if third is None and (second or namespace, first) in services:
        return "", first, second or namespace
    if second and (third or namespace, second) in services and first.startswith(f"{second}-"):
        return first, second, third or namespace
    return None


def _try_reserve(port: int) -> socket.socket | None:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reservation.bind((LOOPBACK, port))
        # Test without SO_REUSEADDR and on every interface, because pods often listen on all interfaces.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("", port))
    except OSError:
        reservation.close()
        return None
    return reservation


def _ephemeral_range() -> tuple[int, int]:
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 49152, 65535
