"""`python -m hack.event_path`: the files that the operator enters from a pod's failure until its successor is created.

With `--created N`, it lists the files from the creation of a job until the job's N pods are created. A real operator
works on the embedded API server in this process, and a profiler records the functions of `tfoperator` that each thread
enters. `tfoperator.local` simulates the cluster. The profiler ignores the threads of `tfoperator.local`, the threads
that receive the operator's own writes, and the threads that send events. The measured case has happened once before, so
that functions of the first time are not counted.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

from hack.kubelet import container_status, running, terminated
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import Client
from tfoperator.kube.client import WatchPace
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import StaticCredentials, bearer
from tfoperator.kube.config.tls import TlsOptions
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import Answer, Creation, Request
from tfoperator.kube.views.objects import decode_nothing, decode_pod
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.operator import Operator, Options
from tfoperator.operator.metrics.operator_metrics import OperatorMetrics
from tfoperator.operator.operator import WATCH_BATCH_PERIOD

ROOT = Path(__file__).parent.parent
_OURS = f"{ROOT}/tfoperator/"
_CLUSTER = f"{ROOT}/tfoperator/local/"
_BESIDE_FAILURE = ("informer tfjobs", "event-recorder")
_BESIDE_CREATION = (
    "informer pods",
    "informer services",
    "informer tfjobs: reconciler",
    "workqueue-delay-tfjobs",
    "event-recorder",
    "api-call",  # of requests for which there is no connection yet
)
"""Threads that are not on the way; of an informer, all of its threads."""

_SECONDS = 60.0
_QUIET_SECONDS = 1.0
"""After the last write of the operator nothing more will follow."""


class Entered(msgspec.Struct, frozen=True):
    """A file that a thread entered: which of its functions, in the order of their first calls."""

    thread: str
    file: str
    functions: tuple[str, ...]
    lines: int
    """Lines of these functions."""


class EventPath(msgspec.Struct, frozen=True):
    """The functions that were entered, by thread and file, in the order of first entry."""

    entered: tuple[Entered, ...]

    @property
    def files(self) -> dict[str, int]:
        """Each file once, with its number of lines."""
        names = dict.fromkeys(entry.file for entry in self.entered)
        return {name: len((ROOT / name).read_bytes().splitlines()) for name in names}

    @property
    def threads(self) -> tuple[str, ...]:
        """The threads that worked on it, without their numbers."""
        return tuple(dict.fromkeys(entry.thread for entry in self.entered))

    def __str__(self) -> str:
        files = self.files
        shown = []
        for thread in self.threads:
            shown.append(f"{thread}:")
            for entry in self.entered:
                if entry.thread == thread:
                    functions = ", ".join(entry.functions)
                    shown.append(f"  {entry.file} ({entry.lines} of {files[entry.file]} lines): {functions}")
        changes = len(self.threads) - 1
        return "\n".join([*shown, f"{len(files)} files, {sum(files.values())} lines, {changes} changes of threads"])


class _Profiler:
    """Records the functions that threads enter while `on` is set. It sees only threads that start after its start."""

    def __init__(self, beside: tuple[str, ...]) -> None:
        self.on = False
        self._beside = beside
        self._cluster: set[int] = set()  # threads that play the cluster
        self._codes: dict[tuple[str, CodeType], None] = {}  # by thread, in the order of first entry

    @contextmanager
    def installed(self) -> Iterator[None]:
        threading.setprofile(self._notice)
        try:
            yield
        finally:
            threading.setprofile(None)

    def _notice(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        file = frame.f_code.co_filename
        if file.startswith(_CLUSTER):
            self._cluster.add(threading.get_ident())
        elif self.on and file.startswith(_OURS) and threading.get_ident() not in self._cluster:
            thread = threading.current_thread().name.rstrip("-_0123456789")
            if thread not in self._beside and thread.partition(":")[0] not in self._beside:
                self._codes[thread, frame.f_code] = None

    def result(self) -> EventPath:
        by_file: dict[tuple[str, str], list[CodeType]] = {}
        for thread, code in self._codes:
            by_file.setdefault((thread, code.co_filename.removeprefix(f"{ROOT}/")), []).append(code)
        return EventPath(
            tuple(
                Entered(thread, file, tuple(code.co_qualname for code in codes), sum(map(_lines, codes)))
                for (thread, file), codes in by_file.items()
            )
        )


def _lines(code: CodeType) -> int:
    return len({line for _, _, line in code.co_lines() if line is not None})


class _OperatorClient(Client):
    """Counts the pods that the operator creates, and ends the profile at the last pod that is waited for."""

    def __init__(self, config: ClusterConfig, profiler: _Profiler, metrics: OperatorMetrics) -> None:
        super().__init__(config, watches=WatchPace(batch_period=WATCH_BATCH_PERIOD), observer=metrics.client)
        self._profiler = profiler
        self._count = threading.Lock()  # guards what follows
        self._pods = 0
        self._awaited = 0
        self._latest = time.monotonic()

    def send(self, chains: Sequence[Sequence[Request]]) -> list[list[Answer]]:
        """Send them as they are."""
        answers = super().send(chains)
        requests = [request for chain in chains for request in chain]
        with self._count:
            self._latest = time.monotonic()
            self._pods += sum(isinstance(request, Creation) and request.resource == PODS for request in requests)
            if self._pods >= self._awaited:
                self._profiler.on = False
        return answers

    def expect(self, pods: int, *, profile: bool) -> None:
        """Wait for this number of additional pods from now on. With `profile`, also record functions."""
        with self._count:
            self._awaited = self._pods + pods
            self._profiler.on = profile

    def await_pods(self) -> None:
        """Wait until those pods were created."""
        _await(lambda: self._pods >= self._awaited)

    def await_quiet(self) -> None:
        """Wait until nothing is sent any more."""
        _await(lambda: time.monotonic() - self._latest > _QUIET_SECONDS)


def trace_failure() -> EventPath:
    """Let the only pod of a job fail. Return the functions that the operator enters until the new pod is created."""
    with _traced(_BESIDE_FAILURE) as (profiler, cluster, client):
        client.expect(1, profile=False)
        cluster.create(TFJOBS, "default", _job("job", 1), decode_nothing)
        client.await_pods()
        for profile in (False, True):
            _set_phase(cluster, "Running")
            client.await_quiet()
            client.expect(1, profile=profile)
            _set_phase(cluster, "Failed")
            client.await_pods()
    return profiler.result()


def trace_creation(replicas: int) -> EventPath:
    """Create a job with this number of pods. Return the functions that the operator enters until all pods exist."""
    with _traced(_BESIDE_CREATION) as (profiler, cluster, client):
        for name, profile in (("job-1", False), ("job-2", True)):
            client.await_quiet()
            client.expect(replicas, profile=profile)
            cluster.create(TFJOBS, "default", _job(name, replicas), decode_nothing)
            client.await_pods()
    return profiler.result()


@contextmanager
def _traced(beside: tuple[str, ...]) -> Iterator[tuple[_Profiler, Client, _OperatorClient]]:
    profiler = _Profiler(beside)
    with profiler.installed(), EmbeddedApiServer() as server:
        config = ClusterConfig(
            server=server.url,
            tls=TlsOptions(ca=server.certificate),
            credentials=StaticCredentials(bearer(server.token, "the token of the embedded API server")),
        )
        with Client(config) as cluster, _operator(config, profiler) as client:
            yield profiler, cluster, client


@contextmanager
def _operator(config: ClusterConfig, profiler: _Profiler) -> Iterator[_OperatorClient]:
    metrics = OperatorMetrics()
    with _OperatorClient(config, profiler, metrics) as client:
        options = Options(restart_delay_base=0.0, resync_period=300.0)
        operator = Operator(client, options, metrics=metrics)
        operator.start()
        try:
            yield client
        finally:
            operator.stop()


def _job(name: str, replicas: int) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example.invalid/train"}]}}
    worker = {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }


def _set_phase(cluster: Client, phase: str) -> None:
    at = "2026-01-01T00:00:00Z"
    state = running(at) if phase == "Running" else terminated(137, startedAt=at, finishedAt=at)
    container = container_status(state, ready=False)
    change = {"status": {"phase": phase, "containerStatuses": [container]}}
    for pod in cluster.list(PODS, "default", decode_pod).items:
        cluster.patch(PODS, "default", pod.metadata.name, change, decode_nothing, subresource="status")


def _await(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the operator did not do what was expected")
        time.sleep(0.01)


def main() -> None:
    """Print the path."""
    parser = argparse.ArgumentParser(prog="python -m hack.event_path", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--created", type=int, default=0, metavar="N", help="trace the creation of a job of N pods")
    created = parser.parse_args().created
    sys.stdout.write(f"{trace_creation(created) if created else trace_failure()}\n")


if __name__ == "__main__":
    main()
