import json
import random
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tfoperator.local.runtime.loopback_network import LoopbackNetwork


@pytest.fixture
def network() -> Iterator[LoopbackNetwork]:
    network = LoopbackNetwork()
    yield network
    network.close()


SERVICES = frozenset({("ns", "job-ps-0"), ("other", "db"), ("ns", "job"), ("other", "far")})


@pytest.mark.parametrize(
    ("name", "of"), [("job-ps-0", ("job-ps-0", 2222)), ("job-worker-0.job", ("job", 2222, "job-worker-0"))]
)
def test_every_form_of_the_name_of_a_service_or_of_a_host_in_one_means_the_same_port(
    network: LoopbackNetwork, name: str, of: tuple[Any, ...]
) -> None:
    expected = f"127.0.0.1:{network.port('ns', *of)}"
    for suffix in ("", ".ns", ".ns.svc", ".ns.svc.cluster.local", ".ns.svc.example.com"):
        assert network.rewrite(f"grpc://{name}{suffix}:2222/x", "ns", SERVICES) == f"grpc://{expected}/x"
    assert network.rewrite("job:2222", "ns", SERVICES) != expected, "the service of a host is somebody else"


def test_a_service_that_is_gone_takes_the_names_in_it_along_and_another_namespace_is_reached_by_its_name(
    network: LoopbackNetwork,
) -> None:
    for service, host in (("job", "job-worker-0"), ("job", ""), ("bigjob", "bigjob-worker-0"), ("job-ps-0", "")):
        network.port("ns", service, 1, host)
    network.port("other", "job", 1, "job-worker-0")
    network.release("ns", "job")
    kept = {("ns", "bigjob-worker-0.bigjob", 1), ("ns", "job-ps-0", 1), ("other", "job-worker-0.job", 1)}
    assert network._ports.keys() == kept
    for name, of in (("db.other:5432", ("db", 5432)), ("far-ps-0.far.other:1", ("far", 1, "far-ps-0"))):
        assert network.rewrite(name, "ns", SERVICES) == f"127.0.0.1:{network.port('other', *of)}"


@pytest.mark.parametrize("within", ["", ".job"])
def test_a_cluster_description_is_rewritten_consistently(network: LoopbackNetwork, within: str) -> None:
    hosts = [f"job-worker-{i}{within}.ns.svc:2222" for i in range(3)]
    config = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": 1}})
    first = network.rewrite(config, "ns", frozenset())
    addresses = json.loads(first)["cluster"]["worker"]
    assert len(set(addresses)) == 3
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", address) for address in addresses)
    assert network.rewrite(config, "ns", frozenset()) == first


@pytest.mark.parametrize(
    "text",
    [
        *("step:100", "12:30:45", "localhost:8080", "127.0.0.1:2222", "http://example.com:80/", "db:5432"),
        *("job-ps-0", "job-ps-0:99999999", "job-ps-0:0", "xjob-ps-0:2222", "my.job-ps-0:2222", "my.job.ns:2222"),
        *("job-worker-0.job.other:2222", "a.job-worker-0.job.ns.svc:2222", "job.svc.cluster.local:2222"),
    ],
)
def test_what_is_no_service_address_is_left_alone(network: LoopbackNetwork, text: str) -> None:
    assert network.rewrite(text, "ns", SERVICES) == text


def test_the_pod_can_listen_on_its_port_while_it_is_reserved_and_gives_it_back_with_its_service(
    network: LoopbackNetwork,
) -> None:
    port = network.port("ns", "a", 2222)
    with socket.socket() as server:  # without SO_REUSEADDR, as the simplest of programs does it
        server.bind(("127.0.0.1", port))
        server.listen()
        assert network.port("ns", "a", 2222) == port
    port = network.port("ns", "a", 1)
    network.release("ns", "a")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as twin:
        twin.bind(("127.0.0.1", port))


def test_a_port_in_use_or_of_another_agent_is_not_chosen() -> None:
    # The same seed makes both try the same candidates in the same order.
    first, second = LoopbackNetwork(rng=random.Random(7)), LoopbackNetwork(rng=random.Random(7))
    mine = {first.port("ns", f"s{i}", 1) for i in range(20)}
    theirs = {second.port("ns", f"s{i}", 1) for i in range(20)}
    assert not mine & theirs
    first.close()
    second.close()
    probe = LoopbackNetwork(rng=random.Random(3))
    taken = probe.port("ns", "a", 1)
    probe.close()
    with socket.socket() as server:
        server.bind(("", taken))
        again = LoopbackNetwork(rng=random.Random(3))
        assert again.port("ns", "a", 1) != taken
        again.close()


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")])
def test_who_listens_is_heard(network: LoopbackNetwork, family: socket.AddressFamily, address: str) -> None:
    quiet, loud = network.port("ns", "a-worker-0", 2222), network.port("ns", "a", 2222, "a-worker-1")
    assert quiet != loud
    with socket.socket(family) as listening:
        listening.bind((address, loud))
        assert network.heard() == set()
        listening.listen()
        assert network.heard() == {("ns", "a-worker-1")}
    assert network.heard() == set()
