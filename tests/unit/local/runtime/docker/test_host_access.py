"""The access to a service of this process: only containers, over the bridge of their own network."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.api.replicas.progress_names import CA_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE
from tfoperator.local.runtime.docker.host_access import (
    Bridge,
    HostAccess,
    Unreachable,
    bridge_of,
    listen_on,
    without_access,
)
from tfoperator.local.runtime.protocol import HostService

NAME = "tfoperator-progress.kube-system.svc"
NETWORK: dict[str, Any] = {
    "Name": "net",
    "Id": "0123456789abcdef",
    "Driver": "bridge",
    "Options": {},
    "IPAM": {"Config": [{"Subnet": "fd00::/64", "Gateway": "fd00::1"}, {"Gateway": "172.18.0.1/16"}]},
}


def test_the_bridge_is_the_engines_or_the_one_that_is_named_and_a_network_without_one_is_refused() -> None:
    assert bridge_of(NETWORK) == Bridge("br-0123456789ab", "172.18.0.1")
    named = NETWORK | {"Options": {"com.docker.network.bridge.name": "docker0"}}
    assert bridge_of(named).interface == "docker0"
    for change in ({"Driver": "overlay"}, {"IPAM": {"Config": None}}, {"IPAM": None}):
        with pytest.raises(Unreachable, match="network net has no bridge"):
            bridge_of(NETWORK | change)


def test_a_socket_takes_what_comes_over_its_interface_if_that_is_on_this_machine() -> None:
    with listen_on(Bridge("lo", "127.0.0.1"), 0) as listening:
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) == b"lo\0"
        with socket.create_connection(listening.getsockname(), timeout=60):
            listening.accept()[0].close()
    for bridge in (Bridge("br-none", "127.0.0.1"), Bridge("lo", "203.0.113.1")):
        with pytest.raises(Unreachable, match=f"can't listen at {bridge.address}:1 on {bridge.interface}: "):
            listen_on(bridge, 1)


class Networks:
    """An engine with one network, whose bridge is this machine's loopback interface or does not exist."""

    def __init__(self, interface: str) -> None:
        options = {"com.docker.network.bridge.name": interface}
        self.network = NETWORK | {"Options": options, "IPAM": {"Config": [{"Gateway": "127.0.0.1"}]}}

    def inspect_network(self, _: str) -> dict[str, Any]:
        return self.network


@pytest.fixture
def accepted() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    yield sockets
    for sock in sockets:
        sock.close()


def test_a_network_is_opened_once_for_each_interface_that_it_has_on_this_machine(
    accepted: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    access = HostAccess(HostService(NAME, 0, accepted.append))
    with pytest.raises(Unreachable, match="br-elsewhere of network net is not an interface of this machine"):
        access.hosts(Networks("br-elsewhere"), "net")
    assert accepted == []
    assert access.hosts(Networks("lo"), "net") == {NAME: "127.0.0.1"}
    assert access.hosts(Networks("lo"), "net", on_host=True) == {NAME: "127.0.0.1"}
    assert len(accepted) == 1
    monkeypatch.setattr(socket, "if_nametoindex", lambda _: 12345)  # it was made anew
    access.hosts(Networks("lo"), "net")
    assert len(accepted) == 2


def test_only_pods_that_are_told_of_it_want_it_and_what_can_not_be_reached_is_not_told() -> None:
    environment = {URL_VARIABLE: "a", CA_VARIABLE: "b", TOKEN_VARIABLE: "c", "OTHER": "d"}
    assert without_access(environment) == {"OTHER": "d"}
    access = HostAccess(HostService(NAME, 0, lambda _: None))
    there, elsewhere = f"https://{NAME}:44/apis", "https://elsewhere:44/apis"
    for name, value, wants in ((URL_VARIABLE, there, True), (URL_VARIABLE, elsewhere, False), ("OTHER", there, False)):
        pod = view(manifest("p", container(env=[{"name": name, "value": value}])))
        assert access.wanted_by(pod) is wants
    assert not access.wanted_by(view(manifest("p", container())))
