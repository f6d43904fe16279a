"""Reads the logs of some replicas for a page (a browser tab).

For each run of a container, a thread reads the log, and the event loop sends the lines to the page. If too many lines
wait for the page, the thread also waits. So a slow page slows down its threads, but gets every line.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from tfoperator.base.clock import SystemClock
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ClientClosed, KubeError
from tfoperator.sdk.logs.pod_logs import LogLine, LogOptions
from tfoperator.sdk.logs.run_log import ContainerRun, RunLogReader, present_run
from tfoperator.ui.jobs.earlier_runs import Attempts, earlier_lines
from tfoperator.ui.jobs.objects import SeenPod

MAX_REPLICAS = 16
"""A page follows the logs of at most this many replicas at the same time."""
MAX_READERS = 128
"""At most this many threads read logs at the same time, for all pages together."""
RETRY_SECONDS = 10.0
"""If the API server refuses a log or does not answer, the thread tries again after this many seconds."""
_MAX_BATCHES = 32
"""At most this many batches of lines wait in memory until they are sent to the page."""


class LogBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines from the log of a run of a replica's container.

    The pod's UID and `restarts` identify the run. `restarts` is the number of restarts of the container before the run.
    If `problem` is set, it is the reason why the rest of the log can't be read now.
    """

    replica: str
    pod: str
    uid: str
    restarts: int
    lines: list[str] = []
    problem: str = ""


class Readers:
    """The threads that read logs for all pages. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _threads
        self._threads: set[threading.Thread] = set()

    def start(self, name: str, work: Callable[[], None]) -> bool:
        """Run a function in a new thread. Return False if there are MAX_READERS threads already."""

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
        """Wait until all threads have ended. The caller must first call `close` of each LogFeed, to end its threads."""
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join()


class LogFeed:
    """Reads the logs of some pods for a page. Call all methods in the thread of the event loop."""

    def __init__(
        self,
        client: Client,
        readers: Readers,
        loop: asyncio.AbstractEventLoop,
        *,
        tail_lines: int,
        attempts: Attempts | None = None,
    ) -> None:
        """Store the settings. A feed begins with the last `tail_lines` lines of each log.

        `attempts` returns the log files of containers that run on this machine. It is None if the containers do not run
        on this machine.
        """
        self._client = client
        self._attempts = attempts
        self._readers = readers
        self._loop = loop
        self._tail = tail_lines
        self._closed = threading.Event()
        self._queue: queue.Queue[LogBatch] = queue.Queue(_MAX_BATCHES)
        self._arrived = asyncio.Event()
        self._open: dict[ContainerRun, RunLogReader] = {}
        self._begun: set[str] = set()  # replicas for which a thread reads the earlier runs
        self._refused: set[ContainerRun] = set()  # runs for which the page has got the message about too many readers

    def follow(self, pods: Iterable[tuple[str, SeenPod]]) -> None:
        """Start to read the log of each pod's current run, unless a thread already reads this log.

        Each item of `pods` is the name of a replica and the pod of this replica. If the replica is new in this feed,
        first read the logs of the replica's earlier runs.
        """
        for replica, pod in pods:
            run = present_run(pod)
            if run is not None and run not in self._open:
                self._begin(replica, pod, run)

    async def take(self, seconds: float) -> list[LogBatch]:
        """Return the lines that were read since the last call. If there are none, wait for lines at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return []
        self._arrived.clear()
        batches: list[LogBatch] = []
        while len(batches) < _MAX_BATCHES:
            try:
                batches.append(self._queue.get_nowait())
            except queue.Empty:
                return batches
        self._arrived.set()
        return batches

    def close(self) -> None:
        """Make all threads of this feed end. The call does not wait for them."""
        self._closed.set()
        for reader in self._open.values():
            reader.close()

    def _begin(self, replica: str, pod: SeenPod, run: ContainerRun) -> None:
        name = pod.metadata.name

        def sink(lines: Sequence[LogLine]) -> None:
            self._put(LogBatch(replica, name, run.pod_uid, run.restarts, [line.text for line in lines]))

        reader = RunLogReader(self._client, pod, run, sink, LogOptions(tail_lines=self._tail), clock=SystemClock())
        self._open[run] = reader
        is_first = replica not in self._begun

        def read() -> None:
            with suppress(ClientClosed):
                for earlier in earlier_lines(self._client, self._attempts, pod, run, self._tail) if is_first else ():
                    self._put(LogBatch(replica, name, earlier.uid, earlier.restarts, earlier.lines))
                    if self._closed.is_set():
                        return
                for problem in self._problems(reader):
                    self._put(LogBatch(replica, name, run.pod_uid, run.restarts, problem=problem))

        if self._readers.start(f"ui-log-{name}", read):
            self._begun.add(replica)
            return
        del self._open[run]
        if run not in self._refused and not self._queue.full():
            self._refused.add(run)
            problem = f"{MAX_READERS} logs are already open: close other tabs with this page"
            self._queue.put_nowait(LogBatch(replica, name, run.pod_uid, run.restarts, problem=problem))
            self._arrived.set()

    def _problems(self, reader: RunLogReader) -> Iterator[str]:
        """Read a log to its end, and try again after each error. Yield an error unless it is equal to the last error.

        Raises ClientClosed.
        """
        problem = ""
        while not self._closed.is_set():
            try:
                reader.read()
                return
            except ClientClosed:
                raise
            except KubeError as error:
                before, problem = problem, str(error)
            if problem != before:
                yield problem
            self._closed.wait(RETRY_SECONDS)

    def _put(self, batch: LogBatch) -> None:
        while not self._closed.is_set():
            try:
                self._queue.put(batch, timeout=0.2)
            except queue.Full:
                continue
            try:
                self._loop.call_soon_threadsafe(self._arrived.set)
            except RuntimeError:  # the event loop has ended
                return
            return
