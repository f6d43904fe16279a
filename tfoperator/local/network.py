"""Service names for pods that share the loopback interface: `service:port` becomes `127.0.0.1:<a free port>`.

Without a network of their own, pods can't have a port 2222 each, and nobody resolves `digits-ps-0.default.svc`. So
each port of each service gets one loopback port, for as long as the service exists, and every mention of it in a
pod's environment and arguments is replaced, in the pod that listens as in those that connect.

A port is kept from others in three ways. It lies outside the range from which the kernel serves outgoing
connections. It is free for TCP when chosen. And its *UDP* twin stays bound as long as it is held, which is how two
agents on one machine avoid each other while the TCP port remains free for the pod; the kernel lets go of it when the
agent dies, however it dies.
"""

from __future__ import annotations

import logging
import random
import re
import socket
import threading
from collections.abc import Collection
from pathlib import Path

__all__ = ["LOOPBACK", "LoopbackNetwork", "NoFreePort"]

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"

_CANDIDATES = range(20000, 30000)
"""Below the ephemeral ranges of Linux (32768-60999) and of macOS and IANA (49152-65535)."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_ADDRESS = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?P<service>{_LABEL})"
    rf"(?:\.(?P<namespace>{_LABEL})(?P<svc>\.svc(?:\.[a-z0-9.-]*[a-z0-9])?)?)?"
    r":(?P<port>\d{1,5})(?![0-9])"
)


class NoFreePort(Exception):
    """No loopback port could be had; the machine is out of ports, or something listens on all of them."""


class LoopbackNetwork:
    """Maps service ports to loopback ports. Thread-safe."""

    def __init__(self, *, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._lock = threading.Lock()  # guards _ports; binding a socket is quick enough to do under it
        self._ports: dict[tuple[str, str, int], tuple[int, socket.socket]] = {}

    def port(self, namespace: str, service: str, port: int) -> int:
        """The loopback port that stands for a service's port; the same answer until it is released.

        Raises NoFreePort.
        """
        key = (namespace, service, port)
        with self._lock:
            held = self._ports.get(key)
            if held is None:
                held = self._ports[key] = self._reserve()
                logger.debug("%s.%s:%d is %s:%d", service, namespace, port, LOOPBACK, held[0])
            return held[0]

    def mappings(self) -> dict[str, str]:
        """`service.namespace:port` to `127.0.0.1:port`, for people."""
        with self._lock:
            return {f"{svc}.{ns}:{port}": f"{LOOPBACK}:{held[0]}" for (ns, svc, port), held in self._ports.items()}

    def release(self, namespace: str, service: str) -> None:
        """Forget a service that is gone; its ports may be used for something else."""
        with self._lock:
            gone = [key for key in self._ports if key[:2] == (namespace, service)]
            held = [self._ports.pop(key) for key in gone]
        for _, reservation in held:
            reservation.close()

    def close(self) -> None:
        """Forget every service."""
        with self._lock:
            held, self._ports = list(self._ports.values()), {}
        for _, reservation in held:
            reservation.close()

    def rewrite(self, text: str, namespace: str, services: Collection[tuple[str, str]]) -> str:
        """Replace every service address in a text, as seen by a pod in `namespace`.

        `name.namespace.svc[.domain]:port` is always one. `name:port` and `name.namespace:port` look like much
        else, so they count only if `services`, pairs of namespace and name, has such a service.
        """
        if ":" not in text:
            return text

        def replacement(match: re.Match[str]) -> str:
            where = match["namespace"] or namespace
            port = int(match["port"])
            known = match["svc"] is not None or (where, match["service"]) in services
            if not known or not 0 < port < 65536:
                return match[0]
            return f"{LOOPBACK}:{self.port(where, match['service'], port)}"

        return _ADDRESS.sub(replacement, text)

    def _reserve(self) -> tuple[int, socket.socket]:
        low, high = _ephemeral_range()
        candidates = [port for port in _CANDIDATES if not low <= port <= high] or list(_CANDIDATES)
        for port in self._rng.sample(candidates, k=min(200, len(candidates))):
            reservation = _try_reserve(port)
            if reservation is not None:
                return port, reservation
        raise NoFreePort("no free loopback port for a service: too many are in use on this machine")


def _try_reserve(port: int) -> socket.socket | None:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reservation.bind((LOOPBACK, port))
        # No SO_REUSEADDR, and every interface: the strictest test there is, since pods often listen on all.
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
