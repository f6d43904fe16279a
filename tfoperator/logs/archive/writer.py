"""Keeps the logs of pods: when their containers end, and at the latest before the operator deletes them.

*When containers end* their watcher calls `take()`, which works in the caller's thread; other threads don't wait.
*Before a deletion* the caller asks `unkept()` which pods must wait, and calls `keep()`,
which never blocks: threads of the archive fetch missing logs. A pod waits for `timeout` seconds at
most; a log not kept by then is reported and lost, because a replica that isn't restarted is worse than a log
that is missing.

The ended runs of a pod are remembered while the pod exists, from the archive itself after a
restart; so an ended run is fetched once, and most deletions don't wait.
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
from tfoperator.logs.archive.runs import NO_RUNS, Run, RunKey, ready_runs, runs_of

logger = logging.getLogger(__name__)

_MAX_WAITING_PODS = 8  # pods whose deletion waits for their logs
_FRESH_TIME = 60.0
"""Seconds during which the logs of a pod count as archived, so that its deletion is allowed.

A failed deletion is retried within this time. A later deletion archives the logs again, because there may be new lines.
"""


class ArchiveMetrics:
    """Hooks that do nothing here: override what you need. Called from the archive's threads; they must not raise."""

    def archived(self, size: int, *, new: bool) -> None:
        """Record archived logs of a pod: `size` bytes; `new` means that they are the pod's first."""

    def archive_failed(self) -> None:
        """Count a pod with one or more logs that could not be kept."""


@dataclass
class _Known:
    """The known runs of a pod: the runs that are kept, and the runs whose logs are lost for good.

    `told`: it was reported that logs of the pod can't be kept for now.
    """

    kept: frozenset[RunKey] = NO_RUNS
    lost: frozenset[RunKey] = NO_RUNS
    told: bool = False


class LogArchive:
    """Thread-safe. `close()` ends its threads, which start when the first deletion waits for a log.

    `report(job, message)` receives the logs that could not be kept, from any thread. `pod_now` distinguishes pods of
    one name in the archive, and limits the memory to existing pods.
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
        self._known: dict[str, _Known] = {}  # by pod uid
        self._running: set[Future[None]] = set()
        self._closed = False
        self._place = place
        self._away = False  # whether the last folder could not be written

    # Stacks.

    def keep_stacks(self, job: ObjectMeta, pod: Pod, container: str, text: str) -> None:
        """Keep the stacks of a container's threads beside its logs; may block for `timeout`. Raises OSError."""
        if self._closed:
            raise OSError("the operator is stopping")
        self._logs.save_stacks(job, pod, container, text)

    # Before deletions.

    def unkept(self, pods: Sequence[Pod]) -> frozenset[str]:
        """Return the UIDs of the pods that must wait; the others may be deleted. Does not block."""
        with self._lock:
            return frozenset(pod.metadata.uid for pod in pods if self._is_unkept(pod))

    def keep(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Start to keep the logs of the pods that must wait and are not being archived yet. Does not block.

        `done` is called, from another thread, once the pods of this call need not wait any longer. A closed
        archive does nothing: it leaves the deletion to the next leader, who archives first.
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
        """Return whether logs of the pod are neither kept nor being kept for its deletion."""
        if pod.metadata.uid in self._waiting or pod.metadata.uid in self._ready:
            return False
        kept = self._known.get(pod.metadata.uid, _Known()).kept
        return any(run.end is None or run.key not in kept for run in runs_of(pod))

    # When containers end.

    def wants(self, pod: Pod) -> bool:
        """Return whether `take` could keep something of the pod. Does not block."""
        with self._lock:
            return not self._closed and bool(self._to_take(pod))

    def take(self, job: ObjectMeta, pod: Pod, *, last: bool) -> bool:
        """Keep the ended runs of the pod, or all its runs if it is being deleted; block for about `timeout` at most.

        Returns whether no retry is needed: the logs are kept, were kept before, or are lost, which is reported.
        With `last` this is always so, unless the archive can't be written. A pod whose deletion waits for its
        logs is left to the threads that fetch them.
        """
        with self._lock:
            if self._closed or pod.metadata.uid in self._waiting:
                return True
            runs = self._to_take(pod)
        return self._archive(job, pod, runs, self._clock.monotonic() + self.timeout, last=last)

    def _to_take(self, pod: Pod) -> list[Run]:
        known = self._known.get(pod.metadata.uid, _Known())
        return [run for run in ready_runs(pod) if run.key not in known.kept and run.key not in known.lost]

    def forget(self, pod: Pod) -> None:
        """Forget a deleted pod."""
        with self._lock:
            self._known.pop(pod.metadata.uid, None)

    def close(self, timeout: float = 2.0) -> None:
        """Cancel current work, and wait up to `timeout` real seconds for the threads. Idempotent.

        A thread that waits for a response, perhaps of a lost node, ends when the client is closed.
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

    def _archive(self, job: ObjectMeta, pod: Pod, runs: Sequence[Run], deadline: float, *, last: bool) -> bool:
        """Return whether no retry is needed; lost logs are reported."""
        meta = pod.metadata
        with self._lock:
            known = self._known.get(meta.uid, _Known()).kept
        problem = ""
        try:
            saved = self._logs.save(job, pod, runs, known, deadline)
        except OSError as error:
            problem = f"the archive can't be written: {error.strerror or error}"
            saved = Saved(known, (problem,), worth_another=True)
        except Exception as error:
            logger.exception("archiving the logs of %s failed", meta.name, extra={"job": job.key})
            saved = Saved(known, (str(error),))
        self._notice(problem)
        if saved.size is not None:
            self._metrics.archived(saved.size, new=saved.new)
        again = saved.worth_another and (not last or bool(problem))
        told = self._learn(pod, saved.kept, NO_RUNS if again else frozenset(run.key for run in runs), told=last)
        if saved.problems and (last or not again) and not told and not self._closed:
            self._lost(job, pod, saved.problems)
        return not again

    def _notice(self, problem: str) -> None:
        """Log when the archive can't be written any more, and when it can be written again."""
        with self._lock:
            changed = self._away != bool(problem) and not self._closed
            self._away = bool(problem)
        if changed and problem:
            logger.warning("%s; logs are kept again when it can be written, for the pods that exist then", problem)
        elif changed:
            logger.info("the log archive can be written again")

    def _learn(self, pod: Pod, kept: frozenset[RunKey], tried: frozenset[RunKey], *, told: bool) -> bool:
        """Remember the result; return whether a problem of the pod was reported before."""
        uid = pod.metadata.uid
        with self._lock:
            known = self._known.setdefault(uid, _Known())
            known.kept |= kept
            known.lost |= tried - known.kept
            before, known.told = known.told, known.told or told
        if self._pod_now(pod) is None:  # and `forget` may have been called too early
            self.forget(pod)
        return before

    def _lost(self, job: ObjectMeta, pod: Pod, problems: Sequence[str]) -> None:
        self._metrics.archive_failed()
        message = f"The log of pod {pod.metadata.name} was not archived: {'; '.join(problems)}"
        logger.warning("%s", message, extra={"job": job.key})
        self._report(job, message)
