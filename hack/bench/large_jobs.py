"""How much memory the operator takes beside large objects: `python -m hack.bench.large_jobs --jobs 1000`.

The embedded API server runs in this process. Each operator is a process of its own, and its peak (VmHWM) counts.
Measured: jobs that are created one by one while it runs, a standby that lists them and takes over, an operator that
starts where the API server does not stream lists, and labelled services with many labels and finalizers, without jobs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from hack.processes import comes_true, free_port, spawn
from tfoperator.api.replicas.names import job_labels
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import decode_metadata
from tfoperator.kube.views.objects import decode_nothing
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http import resource_requests, watch_streams
from tfoperator.local.apiserver.registry.registry import Registry
from tfoperator.local.apiserver.server import EmbeddedApiServer

Json = dict[str, Any]

JOB_BYTES = 1_400_000
"""Near the 1.5 MB that etcd takes."""
SERVICES_COUNT, SERVICE_BYTES = 300, 200_000
WAIT = 900.0
_VALUE = "x" * 10_000
_FLAGS = (
    "--leader-elect", "--leader-elect-namespace=default", "--leader-elect-lease-duration=300s",
    "--leader-elect-renew-deadline=280s", "--leader-elect-retry-period=500ms",
)  # fmt: skip


def large_job(name: str, size: int = JOB_BYTES) -> Json:
    """A TFJob of one worker whose template has about so many bytes: ten thousand in each environment variable."""
    env = [{"name": f"V{number}", "value": _VALUE} for number in range(size // 10_030)]
    container = {"name": "tensorflow", "image": "example.com/train:1", "env": env}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": TFJOBS.api_version,
        "kind": TFJOBS.kind,
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }


def large_service(name: str, size: int = SERVICE_BYTES) -> Json:
    """A service with a job's labels, and about so many bytes of other labels and of finalizers."""
    count = size // 280
    labels = {f"{'l' * 60}.example.com/key-{number}": "v" * 60 for number in range(count)}
    finalizers = [f"{'f' * 100}.example.com/{number}" for number in range(count)]
    metadata = {"name": name, "labels": labels | job_labels("none"), "finalizers": finalizers}
    spec = {"clusterIP": "None", "ports": [{"port": 1}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


class Server:
    """An embedded API server that does or does not stream lists."""

    def __init__(self, folder: Path) -> None:
        self.embedded = EmbeddedApiServer(history_limit=100)
        self.kubeconfig = folder / "kubeconfig"
        self.streams_lists = True

    @contextmanager
    def running(self) -> Iterator[Client]:
        """Run it; yields a client."""
        self.kubeconfig.write_text(json.dumps(self.embedded.kubeconfig()))

        def check_watch_options(options: Any) -> None:
            if options.send_initial_events and not self.streams_lists:
                raise StatusError(
                    422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is enabled"
                )
            watch_streams.check_watch_options(options)

        create = Registry.create

        def create_slimly(registry: Registry, resource: Any, namespace: str, obj: Json, *args: Any, **more: Any) -> Any:
            """Without the variables of pods: the operator reads none, and this server would be kept busy by them."""
            for container in obj.get("spec", {}).get("containers", []):
                container["env"] = []
            return create(registry, resource, namespace, obj, *args, **more)

        patched = mock.patch.object(resource_requests, "check_watch_options", check_watch_options)
        slim = mock.patch.object(Registry, "create", create_slimly)
        with patched, slim, self.embedded, Client(load_config(str(self.kubeconfig))) as client:
            yield client


class Operator:
    """An operator's process, until the end of the block."""

    def __init__(self, server: Server, folder: Path, name: str) -> None:
        self._metrics, self._health = free_port(), free_port()
        command = [
            sys.executable, "-m", "tfoperator.operator", f"--kubeconfig={server.kubeconfig}", *_FLAGS,
            f"--metrics-bind-address=127.0.0.1:{self._metrics}",
            f"--health-probe-bind-address=127.0.0.1:{self._health}",
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] = spawn(command, folder / f"{name}.log")

    def __enter__(self) -> Operator:
        _wait(lambda: page(self._health, "/readyz") is not None, "ready")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()  # it gives its lease back
        try:
            self.process.wait(60)
        finally:
            self.process.kill()

    def leads_quietly(self) -> bool:
        """Whether it leads, and has nothing to do. Raises RuntimeError if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the operator has ended with {self.process.returncode}")
        lines = (page(self._metrics, "/metrics") or "").splitlines()
        return {"tfoperator_leader 1.0", 'workqueue_depth{controller="tfjobs",name="tfjobs"} 0.0'} <= set(lines)

    def peak(self) -> float:
        """MiB of its resident set at most so far."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise ValueError("no VmHWM: it has ended")

    def now(self) -> float:
        """MiB of its resident set."""
        return float(psutil.Process(self.process.pid).memory_info().rss) / 2**20


def page(port: int, path: str) -> str | None:
    """Return the answer of a server on this machine; None while there is no server, or if it refuses."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def measure(
    folder: Path, *, jobs: int, size: int = JOB_BYTES, tell: Callable[[str], object] = print
) -> dict[str, float]:
    """The peaks in MiB, by what was measured. Raises TimeoutError."""
    peaks: dict[str, float] = {}

    def note(title: str, operator: Operator) -> None:
        peaks[title] = operator.peak()
        tell(f"{title}: {peaks[title]:.1f} MiB at the peak, {operator.now():.1f} MiB now")

    server = Server(folder)
    with server.running() as client, ExitStack() as stack:
        with Operator(server, folder, "watching") as watching:
            note("nothing", watching)
            for number in range(jobs):
                client.create(TFJOBS, "default", large_job(f"large-{number}", size), decode_nothing)
            _wait(lambda: _count(client, PODS) == jobs and watching.leads_quietly(), "a pod of each job")
            note("watched", watching)
            standby = stack.enter_context(Operator(server, folder, "standby"))
            note("listed as a stream", standby)
        _wait(standby.leads_quietly, "the standby leads")
        note("change of leaders", standby)
        stack.close()
        server.streams_lists = False
        with Operator(server, folder, "listing") as listing:
            _wait(listing.leads_quietly, "the last one leads")
            note("listed in pages", listing)
    server = Server(folder)
    with server.running() as client:
        for number in range(SERVICES_COUNT):
            client.create(SERVICES, "default", large_service(f"large-{number}"), decode_nothing)
        for streams in (True, False):
            server.streams_lists = streams
            with Operator(server, folder, f"services {streams}") as beside:
                note(f"services, {'as a stream' if streams else 'in pages'}", beside)
    return peaks


def _count(client: Client, resource: Resource) -> int:
    return len(client.list(resource, "default", decode_metadata).items)


def _wait(condition: Callable[[], bool], description: str) -> None:
    if not comes_true(condition, WAIT):
        raise TimeoutError(f"not in time: {description}")


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=JOB_BYTES, dest="size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), jobs=options.jobs, size=options.size)


if __name__ == "__main__":
    main()
