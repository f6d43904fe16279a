"""Lets containers reach a service of this process, only at the gateway of their own network.

For each network, an engine on this machine creates a bridge. The address of the bridge is the gateway of the network's
containers. A socket that only listens at this address is not safe: Linux accepts packets for any of its addresses on
each of its interfaces, so other hosts, and containers in other networks, could reach it. So the socket is bound to the
bridge itself (SO_BINDTODEVICE), and gets only packets from this bridge. Programs of this machine can also reach the
socket, because the kernel treats their packets like packets from the bridge.

The bridge may not be an interface of this machine: the engine may run in a virtual machine, in a network namespace of
its own, or on another machine. In this case the service does not listen, and containers don't get its address, because
their connections would only wait without success.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.api.replicas.progress_names import CA_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE
from tfoperator.local.runtime.docker.engine import ENGINE_ERRORS, explain
from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.local.runtime.protocol import HostService, LocalPod

logger = logging.getLogger(__name__)

_BRIDGE_NAME = "com.docker.network.bridge.name"
"""The network option that sets the name of the bridge. Without this option, the bridge has the engine's default name.
"""
_ID_LENGTH = 12
_BACKLOG = 128


class Unreachable(Exception):
    """Containers of a network can't reach this process. The message contains the reason."""


class Bridge(msgspec.Struct, frozen=True):
    """The interface of a network on the engine's machine, and the IP address of the interface."""

    interface: str
    address: str


def bridge_of(network: Mapping[str, Any]) -> Bridge:
    """Return the bridge of a network. `network` is the engine's description of it.

    Raises Unreachable if the network has no bridge with an IPv4 address.
    """
    settings = [
        setting for setting in (network.get("IPAM") or {}).get("Config") or () if "." in str(setting.get("Gateway"))
    ]
    if network.get("Driver") != "bridge" or not settings:
        raise Unreachable(f"network {network.get('Name')} has no bridge with an address")
    named = (network.get("Options") or {}).get(_BRIDGE_NAME)
    interface = str(named or f"br-{str(network['Id'])[:_ID_LENGTH]}")
    return Bridge(interface, str(settings[0]["Gateway"]).partition("/")[0])


def listen_on(bridge: Bridge, port: int) -> socket.socket:
    """Return a socket that accepts connections only from this bridge, and from this machine.

    Raises Unreachable if the bridge is not an interface of this machine, or if the socket can't be bound to it.
    """
    device = getattr(socket, "SO_BINDTODEVICE", None)
    if device is None:
        raise Unreachable("this system can't bind a socket to an interface")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, device, bridge.interface.encode() + b"\0")
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((bridge.address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        why = error.strerror or str(error)
        raise Unreachable(f"can't listen at {bridge.address}:{port} on {bridge.interface}: {why}") from None
    return listening


class HostAccess:
    """Makes a service of this process reachable in the networks of a run.

    Before a pod that uses the service starts in a network, the network gets access. Thread-safe.
    """

    def __init__(self, service: HostService) -> None:
        self._service = service
        self._lock = threading.Lock()  # guards the fields below; making a socket is fast enough to be done under it
        self._open: dict[str, tuple[Bridge, int]] = {}
        """The bridge and the index of its interface, by the network's name. After a restart of the engine, a network
        may have a new bridge.
        """

    def wanted_by(self, pod: LocalPod) -> bool:
        """Return whether the environment of any of the pod's containers contains the service's address."""
        begin = f"https://{self._service.name}:"
        variables = (variable for container in pod.spec.containers for variable in container.env or ())
        return any(variable.name == URL_VARIABLE and (variable.value or "").startswith(begin) for variable in variables)

    def hosts(self, api: Any, network: str, *, on_host: bool = False) -> dict[str, str]:
        """Return the service's name and its address for a pod in this network.

        `on_host` is true for a pod with `hostNetwork`. If the engine runs on this machine, such a pod reaches the
        service at the loopback address. Raises Unreachable if the pods of this network can't reach this process.
        """
        bridge = self._reach(api, network)
        return {self._service.name: LOOPBACK if on_host else bridge.address}

    def _reach(self, api: Any, network: str) -> Bridge:
        try:
            bridge = bridge_of(api.inspect_network(network))
        except ENGINE_ERRORS as error:
            raise Unreachable(f"the engine does not describe network {network}: {explain(error)}") from None
        try:
            number = socket.if_nametoindex(bridge.interface)
        except OSError:
            raise Unreachable(f"{bridge.interface} of network {network} is not an interface of this machine") from None
        with self._lock:
            if self._open.get(network) != (bridge, number):
                self._service.accept(listen_on(bridge, self._service.port))
                self._open[network] = bridge, number
                logger.info("containers of network %s reach %s at %s", network, self._service.name, bridge.address)
        return bridge


def without_access(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables by which a program finds the receiver of progress reports."""
    return {
        name: value for name, value in environment.items() if name not in (URL_VARIABLE, CA_VARIABLE, TOKEN_VARIABLE)
    }
