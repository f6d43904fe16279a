"""`python -m hack.bench.names`: how soon the names of replicas resolve, with a service for each and with one for all.

On a node with a real kubelet and CoreDNS (`hack/cluster.py`; Linux, root): from the creation of a job of so many
workers until all pods run, and until a DNS server answers for each name in their TF_CONFIG. Networks take turns.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from hack import gobuild, images
from hack.bench.loads import PORT
from hack.cluster import Cluster
from hack.controlplane import ControlPlaneError
from hack.debian import NODE, PackageError, find
from hack.machine import NODE_ADDRESS, MachineError
from hack.processes import comes_true, free_ports
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import Client, load_config
from tfoperator.kube.protocol.errors import KubeError, NotFoundError
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, SERVICES, Resource

_IMAGE = "docker.io/local/names:1"
_NETWORKS = ("PerReplica", "PerJob")
_LIMIT = 300.0
_NAMESPACE = "default"

_ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
_SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")

Json = dict[str, Any]
_decode = msgspec.json.Decoder(Json).decode


class Figures(msgspec.Struct, frozen=True):
    """Seconds from a job's creation until all pods run and all names resolve; and how many objects that took."""

    running: float
    resolved: float
    services: int
    endpoint_slices: int


def resolves(name: str, server: str, timeout: float = 1.0) -> bool:
    """Whether a DNS server has an address for a name. False also if it does not answer in time."""
    query = struct.pack(">HHHHHH", os.getpid() & 0xFFFF, 0x0100, 1, 0, 0, 0)
    query += (
        b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0" + struct.pack(">HH", 1, 1)
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(TimeoutError):
        sock.settimeout(timeout)
        sock.sendto(query, (server, 53))
        answer = sock.recv(4096)
        flags, _, answers = struct.unpack_from(">HHH", answer, 2)
        return bool(flags & 0xF == 0 and answers > 0)
    return False


def host_names(job: str, network: str, workers: int) -> list[str]:
    """The names by which the replicas of a job find each other."""
    domain = f"{_NAMESPACE}.svc.cluster.local"
    within = f"{job}.{domain}" if network == "PerJob" else domain
    return [f"{job}-worker-{index}.{within}" for index in range(workers)]


class _Round:
    def __init__(self, client: Client, job: str, network: str, workers: int) -> None:
        self._client = client
        self._job = job
        self._network = network
        self._workers = workers

    def play(self) -> Figures:
        """Run the job, and delete it when all is measured. Raises TimeoutError, KubeError."""
        before = self._counts()
        self._client.create(TFJOBS, _NAMESPACE, self._manifest(), _decode)
        began = time.monotonic()
        unresolved = host_names(self._job, self._network, self._workers)
        running = 0.0

        def done() -> bool:
            nonlocal unresolved, running
            unresolved = [name for name in unresolved if not resolves(name, NODE_ADDRESS)]
            if not running and self._running() == self._workers:
                running = time.monotonic() - began
            return bool(running) and not unresolved

        _until(done, "all replicas run and resolve")
        resolved = time.monotonic() - began
        _, *made = (now - then for now, then in zip(self._counts(), before, strict=True))
        self._client.delete(TFJOBS, _NAMESPACE, self._job, propagation_policy="Foreground")
        _until(lambda: self._counts() == before, "all that belongs to the job is gone")
        return Figures(running, resolved, *made)

    def _counts(self) -> list[int]:
        return [len(self._all(resource)) for resource in (PODS, SERVICES, _ENDPOINT_SLICES)]

    def _running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self._all(PODS))

    def _all(self, resource: Resource) -> Sequence[Json]:
        return self._client.list(resource, _NAMESPACE, _decode).items

    def _manifest(self) -> Json:
        ports = [{"name": "tfjob-port", "containerPort": PORT}]
        container = {"name": "tensorflow", "image": _IMAGE, "command": ["sleep", "3600"], "ports": ports}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        worker = {"replicas": self._workers, "template": {"spec": spec}}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": self._job},
            "spec": {"network": self._network, "tfReplicaSpecs": {"Worker": worker}},
        }


def measure(workers: int, rounds: int, say: Callable[[str], None]) -> dict[str, list[Figures]]:
    """All rounds. Raises MachineError, ControlPlaneError, BuildError, PackageError, KubeError, TimeoutError."""
    figures_by_network: dict[str, list[Figures]] = {network: [] for network in _NETWORKS}
    with tempfile.TemporaryDirectory(prefix="tfo-names-") as folder:
        cluster = Cluster(Path(folder) / "cluster", progress=say)
        cluster.start()
        try:
            busybox = images.busybox(find(NODE) / "bin/busybox")
            cluster.load_image(images.write_image(Path(folder) / "image.tar", _IMAGE, busybox))
            with Client(load_config(str(cluster.kubeconfig))) as client, _operator(client, cluster.kubeconfig):
                for number in range(rounds):
                    for network in _NETWORKS if number % 2 else reversed(_NETWORKS):
                        say(f"round {number + 1} of {rounds}: {network}")
                        figures = _Round(client, f"names-{number}-{network.lower()}", network, workers).play()
                        figures_by_network[network].append(figures)
        finally:
            cluster.stop()
    return figures_by_network


@contextmanager
def _operator(client: Client, kubeconfig: Path) -> Iterator[None]:
    client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd(), _decode)
    _until(lambda: _is_there(lambda: client.list(TFJOBS, _NAMESPACE, _decode)), "TFJobs are served")
    account = (_SERVICE_ACCOUNTS, _NAMESPACE, "default", _decode)
    _until(lambda: _is_there(lambda: client.get(*account)), "the namespace has its service account")
    health, metrics = free_ports(2)
    command = [
        sys.executable, "-m", "tfoperator.operator", f"--kubeconfig={kubeconfig}",
        f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{health}",
    ]  # fmt: skip
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        try:
            yield
        finally:
            process.terminate()


def _is_there(read: Callable[[], object]) -> bool:
    try:
        read()
    except NotFoundError:
        return False
    return True


def _until(condition: Callable[[], bool], description: str) -> None:
    if not comes_true(condition, _LIMIT):
        raise TimeoutError(f"waited for {_LIMIT:.0f} s that {description}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.names", description="DNS names of replicas, on a node.")
    parser.add_argument("--workers", type=int, default=50, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args(argv)
    try:
        results = measure(options.workers, options.rounds, lambda text: print(text, file=sys.stderr, flush=True))
    except (MachineError, ControlPlaneError, gobuild.BuildError, PackageError, KubeError, TimeoutError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"| {options.workers} workers, medians of {options.rounds} | {' | '.join(results)} |\n"
        f"|---|{'---|' * len(results)}"
    )
    for title, read in (
        ("all pods run after, s", lambda figures: figures.running),
        ("all names resolve after, s", lambda figures: figures.resolved),
        ("services", lambda figures: figures.services),
        ("EndpointSlices", lambda figures: figures.endpoint_slices),
    ):
        cells = (f"{statistics.median(map(read, rounds)):.4g}" for rounds in results.values())
        print(f"| {title} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
