"""Keeps the logs of pods: when their containers end, and at the latest before the operator deletes the pods.

*When containers end*, the thread that watches them calls `take()`. The call fetches logs in the caller's thread, so
other threads don't wait. *Before a deletion*, the caller gets from `unkept()` the pods that must wait, and passes them
to `keep()`. This call never blocks: threads of the archive fetch the missing logs. A pod waits at most `timeout`
seconds. If a log is not kept by then, the archive reports the log as lost, and the operator deletes the pod: a restart
of a replica must not wait forever for a log.

The archive remembers the ended runs of a pod while the pod exists. After a restart, the archive reads these runs from
its records. So the log of an ended run is fetched only once, and most deletions don't wait.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from cachetools import TTLCache

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.client import Client
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.logs.archive.place import Place
from tfoperator.logs.archive.pod_logs import ArchiveBounds, PodLogs, PodNow, Saved
from tfoperator.logs.archive.runs import NO_RUNS, ArchivedRun, RunKey, ready_runs, runs_of

logger = logging.getLogger(__name__)

_MAX_WAITING_PODS = 8  # pods whose deletion waits for their logs
_FRESH_TIME = 60.0
"""The number of seconds for which the logs of a pod count as archived after an attempt to keep them. During this time
the operator may delete the pod.

If a deletion fails, it is retried within this time. Before a later deletion, the logs are archived again, because there
may be new lines.
"""


class ArchiveMetrics:
    """Hooks for metrics about the archive. By default, they do nothing.

    A subclass overrides the hooks that it needs. Threads of the archive call them. The hooks must not raise exceptions.
    """

    def archived(self, size: int, *, new: bool) -> None:
        """Record that `size` bytes of a pod's logs were archived.

        `new` is true if they are the first logs of the pod.
        """

    def archive_failed(self) -> None:
        """Count a pod if one or more of its logs could not be kept."""


@dataclass
class _Known:
    """The known runs of a pod: the runs that the archive has, and the runs for which the logs are lost for good.

    `told` is true if the archive has already reported a problem with the logs of this pod.
    """

    kept: frozenset[RunKey] = NO_RUNS
    lost: frozenset[RunKey] = NO_RUNS
    told: bool = False


class LogArchive:
    """Keeps the logs of pods in an archive.

    Thread-safe. Its threads start when a deletion first waits for a log. `close()` ends the threads. `report(job,
    message)` is called from any thread, with a message about logs that could not be kept. `pod_now(pod)` returns the
    pod as the cache has it now, or None if the pod is gone, even if another pod has its name. The archive forgets the
    runs of pods that are gone.
    """

    def __init__(
        self,
        client: Client,
        place: Place,
        bounds: ArchiveBounds,
        *,
        report: Callable[[ObjectMeta, str], object] = lambda _job, _message: None,
        metrics: ArchiveMetrics | None = None,
        clock: Clock | None = None,
        pod_now: PodNow = lambda pod: pod,
    ) -> None:
        self.timeout = bounds.timeout
        self._report = report
        self._metrics = metrics or ArchiveMetrics()
        self._clock = clock or SystemClock()
        self._pod_now = pod_now
        self._logs = PodLogs(client, place, bounds, clock=self._clock, pod_now=pod_now)
        self._pool = ThreadPoolExecutor(_MAX_WAITING_PODS, thread_name_prefix="log-archive")
        self._lock = threading.Lock()  # guards the fields below, and the UIDs for which a call of `keep` waits
        self._waiting: dict[str, float] = {}  # by uid of a pod whose deletion waits: until when, on the monotonic clock
        self._ready: TTLCache[str, bool] = TTLCache(math.inf, _FRESH_TIME, timer=self._clock.monotonic)  # UIDs
        self._known_runs: dict[str, _Known] = {}  # by pod uid
        self._running: set[Future[None]] = set()
        self._closed = False
        self._place = place
        self._away = False  # whether the last folder could not be written

    # Stacks.

    def keep_stacks(self, job: ObjectMeta, pod: Pod, container: str, text: str) -> None:
        """Keep the stacks of a container's threads in the folder that contains the container's logs.

        The call may block for `self.timeout` seconds. Raises OSError if the stacks can't be written, or after `close`.
        """
        if self._closed:
            raise OSError("the operator is stopping")
        self._logs.save_stacks(job, pod, container, text)

    # Before deletions.

    def unkept(self, pods: Sequence[Pod]) -> frozenset[str]:
        """Return the UIDs of the pods that must not be deleted yet.

        All other pods may be deleted. The call does not block.
        """
        with self._lock:
            return frozenset(pod.metadata.uid for pod in pods if self._is_unkept(pod))

    def keep(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Start to keep the logs of the pods that must wait, unless the archive is already fetching these logs.

        The call does not block. Another thread calls `done` when the pods of this call need not wait any longer. A
        closed archive does nothing. The next leader then deletes the pods, after it has archived their logs.
        """
        deadline = self._clock.monotonic() + self.timeout
        with self._lock:
            fresh = [pod for pod in pods if self._is_fresh(pod)]
            if self._closed or not fresh:
                return
            batch = {pod.metadata.uid for pod in fresh}
            for pod in fresh:
                self._waiting[pod.metadata.uid] = deadline
                running = self._pool.submit(self._run, job, pod, deadline, batch, done)
                self._running.add(running)
                running.add_done_callback(self._running.discard)

    def _is_unkept(self, pod: Pod) -> bool:
        deadline = self._waiting.get(pod.metadata.uid)
        return self._is_fresh(pod) if deadline is None else self._clock.monotonic() < deadline

    def _is_fresh(self, pod: Pod) -> bool:
        """Return whether the pod has logs that are not kept, and that are not being fetched for its deletion."""
        if pod.metadata.uid in self._waiting or pod.metadata.uid in self._ready:
            return False
        kept = self._known_runs.get(pod.metadata.uid, _Known()).kept
        return any(run.end is None or run.key not in kept for run in runs_of(pod))

    # When containers end.

    def wants(self, pod: Pod) -> bool:
        """Return whether `take` could keep something of the pod. The call does not block."""
        with self._lock:
            return not self._closed and bool(self._to_take(pod))

    def take(self, job: ObjectMeta, pod: Pod, *, last: bool) -> bool:
        """Keep the logs of the pod's ended runs.

        If the pod is being deleted, keep the logs of all its runs. The call blocks for about `self.timeout` seconds at
        most. The call returns true if no retry is needed: the logs are kept, or they are lost, which the archive
        reports. With `last` (the last attempt), the call always returns true, unless the archive can't be written. If
        the pod's deletion already waits for its logs, the call does nothing: the archive's threads fetch these logs.
        """
        with self._lock:
            if self._closed or pod.metadata.uid in self._waiting:
                return True
            runs = self._to_take(pod)
        return self._archive(job, pod, runs, self._clock.monotonic() + self.timeout, last=last)

    def _to_take(self, pod: Pod) -> list[ArchivedRun]:
        known_runs = self._known_runs.get(pod.metadata.uid, _Known())
        return [run for run in ready_runs(pod) if run.key not in known_runs.kept and run.key not in known_runs.lost]

    def forget(self, pod: Pod) -> None:
        """Forget the runs of a pod that was deleted."""
        with self._lock:
            self._known_runs.pop(pod.metadata.uid, None)

    def close(self, timeout: float = 2.0) -> None:
        """Cancel the current work, and wait up to `timeout` seconds of real time for the threads. Idempotent.

        A thread may be waiting for a response, for example from a lost node. Such a thread ends when the client is
        closed.
        """
        with self._lock:
            self._closed = True
        self._logs.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if not wait(tuple(self._running), timeout).not_done:  # cancelled work is not among them
            self._pool.shutdown(wait=True)
        self._place.close()

    # In the archive's threads, or the thread that calls `take`.

    def _run(self, job: ObjectMeta, pod: Pod, deadline: float, batch: set[str], done: Callable[[], object]) -> None:
        try:
            self._archive(job, pod, runs_of(pod), deadline, last=True)
        finally:
            with self._lock:
                self._waiting.pop(pod.metadata.uid, None)
                self._ready[pod.metadata.uid] = True
                batch.discard(pod.metadata.uid)
                over = not batch
            if over:
                done()

    def _archive(self, job: ObjectMeta, pod: Pod, runs: Sequence[ArchivedRun], deadline: float, *, last: bool) -> bool:
        """Archive the logs of these runs, and report lost logs. Return whether no retry is needed.

        With `last` (the last attempt), a retry is needed only if the archive can't be written.
        """
        meta = pod.metadata
        with self._lock:
            kept = self._known_runs.get(meta.uid, _Known()).kept
        problem = ""
        try:
            saved = self._logs.save(job, pod, runs, kept, deadline)
        except OSError as error:
            problem = f"the archive can't be written: {error.strerror or error}"
            saved = Saved(kept, (problem,), worth_another=True)
        except Exception as error:
            logger.exception("archiving the logs of %s failed", meta.name, extra={"job": job.key})
            saved = Saved(kept, (str(error),))
        self._notice(problem)
        if saved.size is not None:
            self._metrics.archived(saved.size, new=saved.new)
        again = saved.worth_another and (not last or bool(problem))
        was_reported = self._learn(
            pod, saved.kept, NO_RUNS if again else frozenset(run.key for run in runs), reporting=last
        )
        if saved.problems and (last or not again) and not was_reported and not self._closed:
            self._lost(job, pod, saved.problems)
        return not again

    def _notice(self, problem: str) -> None:
        """Log a message when the archive can no longer be written, and when it can be written again.

        `problem` is "" if the archive can be written now.
        """
        with self._lock:
            changed = self._away != bool(problem) and not self._closed
            self._away = bool(problem)
        if changed and problem:
            logger.warning(
                "%s; when the archive can be written, the operator will keep the logs of the pods that exist then",
                problem,
            )
        elif changed:
            logger.info("the log archive can be written again")

    def _learn(self, pod: Pod, kept: frozenset[RunKey], tried: frozenset[RunKey], *, reporting: bool) -> bool:
        """Remember which runs have a kept log. The other `tried` runs are lost.

        `reporting` is true if the caller now reports problems of the pod. Return whether such problems were reported
        before.
        """
        uid = pod.metadata.uid
        with self._lock:
            known_runs = self._known_runs.setdefault(uid, _Known())
            known_runs.kept |= kept
            known_runs.lost |= tried - known_runs.kept
            before, known_runs.told = known_runs.told, known_runs.told or reporting
        if self._pod_now(pod) is None:  # the pod is gone, and `forget` may have run before
            self.forget(pod)
        return before

    def _lost(self, job: ObjectMeta, pod: Pod, problems: Sequence[str]) -> None:
        self._metrics.archive_failed()
        message = f"The log of pod {pod.metadata.name} was not archived: {'; '.join(problems)}"
        logger.warning("%s", message, extra={"job": job.key})
        self._report(job, message)
