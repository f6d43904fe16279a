"""The logs of some replicas for one page: a thread per run of a container reads, the event loop takes the lines.

The threads wait until the page has taken their lines. So a slow page slows down its threads, and gets every line.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tfoperator.base.clock import SystemClock
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.sdk.logs.pod_logs import LogLine, LogOptions
from tfoperator.sdk.logs.run_log import ContainerRun, RunLogReader, present_run
from tfoperator.ui.jobs.earlier_runs import Attempts, earlier_lines
from tfoperator.ui.jobs.objects import SeenPod

MAX_REPLICAS = 16
"""Replicas whose logs one page follows at a time."""
MAX_READERS = 128
"""Threads that read logs for all pages together."""
_MAX_BATCHES = 32
"""Batches that are read but not taken yet, per page."""


class LogBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines of one run of a replica. The pod's name and UID and `restarts` distinguish its runs.

    `problem`: why no more lines will follow.
    """

    replica: str
    pod: str
    uid: str
    restarts: int
    lines: list[str] = []
    problem: str = ""


class Readers:
    """The threads of all pages. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _threads
        self._threads: set[threading.Thread] = set()

    def start(self, name: str, work: Callable[[], None]) -> bool:
        """Run a function in a thread; return False if there are too many."""

        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            if len(self._threads) >= MAX_READERS:
                return False
            self._threads.add(thread)
            thread.start()
        return True

    def join(self) -> None:
        """Wait for the end of every thread; their owners must have closed them."""
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join()


class LogFeed:
    """The logs of some pods, for one page. Call everything in the event loop's thread."""

    def __init__(
        self,
        client: Client,
        readers: Readers,
        loop: asyncio.AbstractEventLoop,
        *,
        tail_lines: int,
        attempts: Attempts | None = None,
    ) -> None:
        """Initialize; `attempts` are the logs of containers that run on this machine."""
        self._client = client
        self._attempts = attempts
        self._readers = readers
        self._loop = loop
        self._tail = tail_lines
        self._closed = threading.Event()
        self._queue: queue.Queue[LogBatch] = queue.Queue(_MAX_BATCHES)
        self._arrived = asyncio.Event()
        self._open: dict[ContainerRun, RunLogReader] = {}
        self._begun: set[str] = set()  # replicas whose earlier runs are read

    def follow(self, pods: Iterable[tuple[str, SeenPod]]) -> None:
        """Read the runs of these replicas' pods that are not read yet, and before them each replica's earlier runs."""
        for replica, pod in pods:
            run = present_run(pod)
            if run is not None and run not in self._open:
                self._begin(replica, pod, run)

    async def take(self, seconds: float) -> list[LogBatch]:
        """Return the lines read; an empty result if there are no lines in that many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return []
        self._arrived.clear()
        found: list[LogBatch] = []
        while len(found) < _MAX_BATCHES:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                return found
        self._arrived.set()
        return found

    def close(self) -> None:
        """End every thread soon, without waiting."""
        self._closed.set()
        for reader in self._open.values():
            reader.close()

    def _begin(self, replica: str, pod: SeenPod, run: ContainerRun) -> None:
        name, problem = pod.metadata.name, ""

        def sink(lines: Sequence[LogLine]) -> None:
            self._put(LogBatch(replica, name, run.pod_uid, run.restarts, [line.text for line in lines]))

        reader = RunLogReader(self._client, pod, run, sink, LogOptions(tail_lines=self._tail), clock=SystemClock())
        self._open[run] = reader
        is_first = replica not in self._begun

        def read() -> None:
            try:
                for found in earlier_lines(self._client, self._attempts, pod, run, self._tail) if is_first else ():
                    self._put(LogBatch(replica, name, found.uid, found.restarts, found.lines))
                    if self._closed.is_set():
                        return
                reader.read()
            except KubeError as error:
                self._put(LogBatch(replica, name, run.pod_uid, run.restarts, problem=str(error)))

        if not self._readers.start(f"ui-log-{name}", read):
            problem = f"{MAX_READERS} logs are already open: close other pages"
            self._open.pop(run)
            self._arrived.set()
            if not self._queue.full():
                self._queue.put_nowait(LogBatch(replica, name, run.pod_uid, run.restarts, problem=problem))
            return
        self._begun.add(replica)

    def _put(self, batch: LogBatch) -> None:
        while not self._closed.is_set():
            try:
                self._queue.put(batch, timeout=0.2)
            except queue.Full:
                continue
            try:
                self._loop.call_soon_threadsafe(self._arrived.set)
            except RuntimeError:  # the loop and the page are closed
                return
            return
