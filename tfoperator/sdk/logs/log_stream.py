"""Follows the logs of a job to its end.

The stream also has the lines of containers that start or restart later, and of pods that are created again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from tfoperator.api.replicas.names import job_selector, replica_name
from tfoperator.api.replicas.replica_pods import replica_phase
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.kube import ListOptions, Selection, by_name
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import WatchEventType
from tfoperator.kube.views.objects import Pod, decode_pod
from tfoperator.kube.watching.following import Follower
from tfoperator.sdk.logs.pod_logs import LogLine, LogOptions
from tfoperator.sdk.logs.run_log import ContainerRun, RunLogReader, is_running, present_run
from tfoperator.sdk.states import ReplicaFilter, pod_order, waiting_reason

_QUEUE_SIZE = 256  # messages, mostly batches of lines, that the iterating thread has not received yet
_GRACE = 5.0  # seconds after the job's end for which running containers are still followed: a PS may never end

_Item = Callable[[], object] | list[LogLine]
"""An item of the queue: a function that the iterating thread calls to record a change, or lines to yield."""


class JobLogStream:
    """An iterator over the `LogLine`s of a job's pods as they are written.

    Iterate only once and in one thread. The stream is also a context manager. Iteration ends when the job has ended and
    its logs are read, or when any thread calls `close()`. For a single replica, iteration ends when the replica's pod
    has succeeded. Iteration raises KubeError if the server refuses a request. `which` selects pods. While the stream
    waits, it calls `on_wait` in the iterating thread with a description of the state for which it waits, for example
    `waiting for pods`. When the wait is over, it calls `on_wait` with "". The lines of a container come in order and
    only once, even if connections break.
    """

    def __init__(
        self,
        client: Client,
        job: TFJob,
        which: ReplicaFilter,
        wanted: LogOptions,
        *,
        on_wait: Callable[[str], object] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._job = job
        self._which = which
        self._options = wanted
        self._on_wait = on_wait
        self._clock = clock or SystemClock()
        self._stop = StopSignal()
        self._queue: queue.Queue[_Item] = queue.Queue(_QUEUE_SIZE)
        meta = job.metadata
        pods = Selection(label_selector=job_selector(meta.name))
        self._pod_changes = Follower(client, PODS, meta.namespace, decode_pod, pods, clock=clock)
        self._job_changes = Follower(client, TFJOBS, meta.namespace, decode_tfjob, by_name(meta.name), clock=clock)
        # Only the iterating thread uses the fields below.
        self._threads: list[threading.Thread] = []
        self._pods: dict[str, Pod] = {}  # by uid
        self._begun: set[ContainerRun] = set()
        self._active: dict[ContainerRun, RunLogReader] = {}
        self._over_at: float | None = None
        self._cut = False
        self._waiting = ""

    def __enter__(self) -> JobLogStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Make the iteration end soon. The call is idempotent and thread-safe, and does not block."""
        self._stop.set()

    def __iter__(self) -> Iterator[LogLine]:
        """Yield each line with its replica, its pod and its container."""
        try:
            self._start("log-watch-pods", self._watch_pods)
            self._start("log-watch-job", self._watch_job)
            self._report_wait(self._wanted())
            while not self._is_done():
                try:
                    item = self._queue.get(timeout=0.2)
                except queue.Empty:
                    continue
                if isinstance(item, list):
                    self._report_wait("")
                    yield from item
                else:
                    item()
                    self._report_wait(self._wanted())
        finally:
            self._end()

    # In the iterating thread.

    def _end(self) -> None:
        self._stop.set()
        self._pod_changes.close()
        self._job_changes.close()
        for reader in self._active.values():
            reader.close()
        for thread in self._threads:
            thread.join(10)

    def _saw_pod(self, pod: Pod) -> None:
        self._pods[pod.metadata.uid] = pod
        self._begin(pod)

    def _job_over(self) -> None:
        self._over_at = self._clock.monotonic()
        for pod in self._present():  # the watch of pods may be behind the watch of the job
            self._begin(pod)

    def _ended(self, run: ContainerRun | None, error: KubeError | None) -> None:
        """Record that a thread has ended. `run` is None for a thread that watches the job or its pods.

        If the server refused the thread's request, `error` is its error. The method raises this error.
        """
        if run is not None:
            self._active.pop(run, None)
        if error is not None:
            raise error

    def _begin(self, pod: Pod) -> None:
        run = present_run(pod, self._options.container)
        if run is None or run in self._begun:
            return
        self._begun.add(run)
        reader = RunLogReader(self._client, pod, run, self._put, self._options, clock=self._clock)
        self._active[run] = reader
        self._start(f"log-{pod.metadata.name}", reader.read, run)

    def _is_done(self) -> bool:
        if self._stop.is_set():
            return True
        if self._over_at is not None and not self._cut and self._clock.monotonic() - self._over_at > _GRACE:
            self._cut_running()
        if self._active or not self._queue.empty():
            return False
        succeeded = any(replica_phase(pod) == "Succeeded" for pod in self._pods.values())
        return self._over_at is not None or (self._which.single and succeeded)

    def _cut_running(self) -> None:
        self._cut = True
        pods = self._present()
        for run, reader in self._active.items():
            if any(is_running(pod, run) for pod in pods):
                reader.close()

    def _present(self) -> list[Pod]:
        meta = self._job.metadata
        page = self._client.list(PODS, meta.namespace, decode_pod, ListOptions(label_selector=job_selector(meta.name)))
        return [pod for pod in page.items if self._is_meant(pod)]

    def _wanted(self) -> str:
        if self._active or self._over_at is not None:
            return ""
        if not self._pods:
            return "waiting for pods"
        pod = min(self._pods.values(), key=pod_order)
        reason = waiting_reason(pod)
        return f"waiting for {replica_name(pod)} to start" + (f" ({reason})" if reason else "")

    def _report_wait(self, waiting: str) -> None:
        if waiting != self._waiting:
            self._waiting = waiting
            if self._on_wait is not None:
                self._on_wait(waiting)

    def _start(self, name: str, work: Callable[[], None], run: ContainerRun | None = None) -> None:
        def work_and_report() -> None:
            failure: KubeError | None = None
            try:
                work()
            except KubeError as error:
                failure = error
            finally:
                self._put(partial(self._ended, run, failure))

        thread = threading.Thread(target=work_and_report, name=name, daemon=True)
        self._threads = [started for started in self._threads if started.is_alive()]
        self._threads.append(thread)
        thread.start()

    # In other threads.

    def _watch_pods(self) -> None:
        with closing(iter(self._pod_changes)) as changes:
            for change in changes:
                pod = change.object
                if pod is not None and self._is_meant(pod):
                    gone = change.type is WatchEventType.DELETED
                    self._put(partial(self._pods.pop, pod.metadata.uid, None) if gone else partial(self._saw_pod, pod))

    def _watch_job(self) -> None:
        has_existed = False
        with closing(iter(self._job_changes)) as changes:
            for change in changes:
                job = change.object
                if job is None and has_existed:
                    continue
                has_existed = True
                if job is None or change.type is WatchEventType.DELETED or self._is_over(job):
                    self._put(self._job_over)
                    return

    def _is_over(self, job: TFJob) -> bool:
        return job.metadata.uid != self._job.metadata.uid or final_condition(job) is not None

    def _is_meant(self, pod: Pod) -> bool:
        return pod.metadata.is_controlled_by(self._job.metadata.uid) and self._which.matches(pod)

    def _put(self, item: _Item) -> None:
        """Pass a change, or log lines, to the iterating thread. Block while the queue of this thread is full."""
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return
            except queue.Full:
                continue
