"""`python -m hack.event_path`: the files that the operator enters from a pod's failure until its successor is created.

A real operator works on the embedded API server, in this process, and a profiler notes which functions of `tfoperator`
each thread enters. `tfoperator.local` plays the cluster: its threads don't count, nor do those to which the operator's
own write of the job's status comes back, or which send events. The same failure has happened once before, so that
nothing is counted that happens only the first time.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import Client, ClusterConfig, Observers, RequestObserver, ServerLoad
from tfoperator.kube.config import StaticCredentials, TlsOptions, bearer
from tfoperator.kube.objects import decode_nothing, decode_pod
from tfoperator.kube.resources import PODS
from tfoperator.local.apiserver import EmbeddedApiServer
from tfoperator.operator import WATCH_BATCH_PERIOD, Operator, OperatorMetrics, Options

ROOT = Path(__file__).parent.parent
_OURS = f"{ROOT}/tfoperator/"
_CLUSTER = f"{ROOT}/tfoperator/local/"
_BESIDE = ("informer tfjobs", "event-recorder")
"""Threads that are not on the way: what begins like this."""

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
    """What was entered, by thread and file, in the order of first entry."""

    entered: tuple[Entered, ...]

    @property
    def files(self) -> dict[str, int]:
        """Each file once, with its number of lines."""
        names = dict.fromkeys(one.file for one in self.entered)
        return {name: len((ROOT / name).read_bytes().splitlines()) for name in names}

    @property
    def threads(self) -> tuple[str, ...]:
        """The threads that worked on it, without their numbers."""
        return tuple(dict.fromkeys(one.thread for one in self.entered))

    def __str__(self) -> str:
        files = self.files
        shown = []
        for thread in self.threads:
            shown.append(f"{thread}:")
            for one in self.entered:
                if one.thread == thread:
                    what = ", ".join(one.functions)
                    shown.append(f"  {one.file} ({one.lines} of {files[one.file]} lines): {what}")
        changes = len(self.threads) - 1
        return "\n".join([*shown, f"{len(files)} files, {sum(files.values())} lines, {changes} changes of threads"])


class _Profiler:
    """Notes which functions are entered while `on` is set. Only threads that are started while it is installed."""

    def __init__(self) -> None:
        self.on = False
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
            if not thread.startswith(_BESIDE):
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


class _Writes(RequestObserver):
    """Counts the operator's writes; calls `created` with how many pods it has created so far."""

    def __init__(self) -> None:
        self.pods = 0
        self.latest = time.monotonic()
        self.created: Callable[[int], None] = lambda _: None
        self._lock = threading.Lock()  # guards the counts

    def written(self, method: str, kind: str, namespace: str, seconds: float) -> None:  # noqa: ARG002
        with self._lock:
            self.latest = time.monotonic()
            self.pods += (method, kind) == ("POST", "pods")
            self.created(self.pods)


def trace(replicas: int = 1) -> EventPath:
    """Have so many workers of a job fail at once; what the operator enters until all successors are created."""
    profiler = _Profiler()
    with profiler.installed(), EmbeddedApiServer() as server:
        config = ClusterConfig(
            server=server.url,
            tls=TlsOptions(ca=server.certificate),
            credentials=StaticCredentials(bearer(server.token, "the embedded API server's token")),
        )
        with Client(config) as cluster, _operator(config) as writes:
            cluster.create(TFJOBS, "default", _job(replicas), decode_nothing)
            _await(lambda: writes.pods == replicas)
            for failures in (1, 2):
                _set_phases(cluster, "Running")
                _await(lambda: time.monotonic() - writes.latest > _QUIET_SECONDS)
                wanted = replicas * (failures + 1)
                if failures == 2:
                    writes.created = lambda pods: setattr(profiler, "on", pods < replicas * 3)
                    profiler.on = True
                _set_phases(cluster, "Failed")
                _await(lambda wanted=wanted: writes.pods == wanted)  # type: ignore[misc]
    return profiler.result()


@contextmanager
def _operator(config: ClusterConfig) -> Iterator[_Writes]:
    """An operator, as the process of `tfoperator operator` makes it."""
    writes, load, metrics = _Writes(), ServerLoad(), OperatorMetrics()
    observer = Observers(metrics.client, load, writes)
    options = Options(restart_delay_base=0.0, resync_period=300.0)
    with Client(config, watch_batch_period=WATCH_BATCH_PERIOD, observer=observer) as client:
        creator = client.creator(options.create_parallelism)
        operator = Operator(client, options, metrics=metrics, server_load=load.level, creator=creator)
        operator.start()
        try:
            yield writes
        finally:
            operator.stop()
            creator.close()


def _job(replicas: int) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example.invalid/train"}]}}
    worker = {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "job"},
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }


def _set_phases(cluster: Client, phase: str) -> None:
    at = "2026-01-01T00:00:00Z"
    running = {"running": {"startedAt": at}}
    state = running if phase == "Running" else {"terminated": {"exitCode": 137, "startedAt": at, "finishedAt": at}}
    container = {"name": "tensorflow", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
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
    """Print the path of one failure, or of several at once."""
    parser = argparse.ArgumentParser(prog="python -m hack.event_path", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--replicas", type=int, default=1, help="how many pods fail at once")
    sys.stdout.write(f"{trace(parser.parse_args().replicas)}\n")


if __name__ == "__main__":
    main()
