"""A service of this process that containers are to reach, and nobody else."""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec


class HostService(msgspec.Struct, frozen=True):
    """Containers know it as `https://{name}:{port()}`.

    A runtime whose containers have networks of their own makes a socket that only one of these networks can reach, at
    this port, and gives it to `accept`, whose it is from then on. Both are called from any thread, once a pod runs that
    has been told of the service.
    """

    name: str
    port: Callable[[], int]
    accept: Callable[[socket.socket], object]
