"""The TFJob controller: events become keys, worker threads take keys, and a sync is look, decide, act.

A sync looks at the caches only (no API call), lets the pure `plan()` decide, and has the plan executed. It is
level-triggered: it acts on the whole observed state, so it doesn't matter which event caused it, how often it runs, or
what was going on when the process was killed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from tfoperator.api.rules import MANAGED_BY_OPERATOR
from tfoperator.api.v1.types import TFJob
from tfoperator.clock import Clock, SystemClock
from tfoperator.controller.actions import Observed, Plan, PlanOptions
from tfoperator.controller.archiving import PodArchive, doomed, postpone
from tfoperator.controller.caches import ControllerInformers
from tfoperator.controller.claim import Claimer
from tfoperator.controller.execute import PlanExecutor
from tfoperator.controller.first_status import held_back, may_wait
from tfoperator.controller.gang_size import priorities_of
from tfoperator.controller.handlers import JobHandler
from tfoperator.controller.job_events import Recorder
from tfoperator.controller.memory import JobMemory, ReconcileNote
from tfoperator.controller.metrics import ControllerMetrics, NoControllerMetrics
from tfoperator.controller.own_writes import mark_let_go, without_unseen
from tfoperator.controller.plan import plan
from tfoperator.controller.requeue import Requeuer
from tfoperator.controller.slow_start import CallPool
from tfoperator.controller.stale_cache import CacheCheck
from tfoperator.controller.workers import Workers
from tfoperator.expectations import Expectations
from tfoperator.informers import ObjectNotFound
from tfoperator.kube.errors import KubeError
from tfoperator.kube.objects import Pod
from tfoperator.kube.verbs import ApiClient
from tfoperator.workqueue import RateLimitingQueue

__all__ = ["ControllerOptions", "TFJobController"]


class ControllerOptions(msgspec.Struct, frozen=True):
    """How a controller works.

    `threadiness` jobs are synced at a time; `parallelism` bounds the creates and deletes in flight, of all jobs.
    `batch_period` (seconds) is how long news of pods and services are gathered before their job is synced: the pods of
    one job start and end together, and one status write for all of them is what the API server can bear. For
    `first_status_period` (seconds) a job's first status waits for news worth telling (see `first_status`).
    """

    threadiness: int = 8
    parallelism: int = 16
    batch_period: float = 0.1
    first_status_period: float = 0.0
    plan: PlanOptions = PlanOptions()


class TFJobController:
    """Keeps every TFJob in the caches as its spec wants it.

    `start()` looks at every job, and from then on at those that something happens to; call it once the caches are
    complete, for a half-filled cache looks like lost pods. Before, as on a standby, no key is kept: the caches know all
    that happened meanwhile. `stop()` lets running syncs finish and takes no new key.
    """

    def __init__(
        self,
        client: ApiClient,
        informers: ControllerInformers,
        *,
        queue: RateLimitingQueue[str],
        expectations: Expectations,
        recorder: Recorder,
        clock: Clock | None = None,
        options: ControllerOptions | None = None,
        metrics: ControllerMetrics | None = None,
        archive: PodArchive | None = None,
    ) -> None:
        """With an `archive`, no pod is deleted before its logs are kept, or its time for that is over."""
        self._archive = archive
        self._clock = clock or SystemClock()
        self._options = options or ControllerOptions()
        self._plan_options = self._options.plan
        self._metrics = metrics or NoControllerMetrics()
        self._queue = queue
        self._expectations = expectations
        self._memory = JobMemory()
        self._jobs = informers.jobs.lister
        gang, pod_groups = informers.gang, informers.pod_groups
        self._priority_classes = None if informers.priority_classes is None else informers.priority_classes.lister
        self._claimer = Claimer(
            client,
            informers.pods.lister,
            informers.services.lister,
            informers.deployments.lister,
            (gang.pod_groups, pod_groups.lister) if gang is not None and pod_groups is not None else None,
        )
        self._pool = CallPool(self._options.parallelism)
        self._executor = PlanExecutor(
            client,
            claimer=self._claimer,
            pool=self._pool,
            expectations=expectations,
            memory=self._memory,
            recorder=recorder,
            clock=self._clock,
            metrics=self._metrics,
            gang=gang,
        )
        self._cache_check = CacheCheck(client, self._claimer, self._pool, self._clock)
        self._requeue = Requeuer(queue, self._memory, self._metrics)
        self._workers = Workers(queue, self._process, self._options.threadiness)
        self._leading = False  # set once, by start()
        now, soon = self._when_leading(0), self._when_leading(self._options.batch_period)
        informers.connect(JobHandler(now, soon, self._gone), expectations, soon)

    # Life.

    def start(self) -> None:
        """Start the workers. Raises RuntimeError if called twice."""
        if self._leading:
            raise RuntimeError("this controller has been started before")
        # First this: what a handler is told from now on is queued, and what it was told before is in the cache.
        self._leading = True
        jobs = self._jobs.list()
        self._cache_check.inherit(jobs)
        for job in jobs:
            self._queue.add(job.metadata.key)
        self._workers.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new key, wait up to `timeout` real seconds for running syncs; False if one is still running."""
        finished = self._workers.stop(timeout)
        if finished:
            self._pool.close()
        return finished

    def enqueue(self, key: str) -> None:
        """Have a job (`namespace/name`) looked at soon."""
        self._queue.add(key)

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Have a job looked at after a while."""
        self._queue.add_after(key, seconds)

    def plan_with(self, options: PlanOptions) -> None:
        """Have every plan from now on made with other options."""
        self._plan_options = options

    def note_reconciled(self, uid: str, note: ReconcileNote) -> None:
        """Have the time of a comparison with the live state recorded; queue the job, too, if it needs a write."""
        self._memory.note_reconciled(uid, note)

    # Work.

    def _process(self, key: str) -> None:
        try:
            self.sync_tfjob(key)
        except KubeError as error:
            self._requeue.after_errors(key, [error])
        except Exception as error:  # noqa: BLE001 - the top of a worker's thread
            self._requeue.after_bug(key, error)

    def sync_tfjob(self, key: str) -> None:
        """Bring one job (`namespace/name`) closer to what it should be. At most one call per key at a time.

        Reads the caches only, unless an orphan is to be adopted, a name is taken or a pod has vanished. Raises
        KubeError if the job's objects can't be claimed; what fails later has been requeued on return.
        """
        namespace, _, name = key.rpartition("/")
        cached = self._cached(namespace, name)
        if cached is None or cached.metadata.deletion_timestamp is not None or _is_managed_by_others(cached):
            self._queue.forget(key)
            return
        try:
            self._sync(key, cached)
        finally:
            # If the job was deleted meanwhile, its handler may have come too early to forget what the sync remembers.
            uid, now = cached.metadata.uid, self._cached(namespace, name)
            if now is None or now.metadata.uid != uid:
                self._forget(uid)

    def _sync(self, key: str, cached: TFJob) -> None:
        job, problems = self._memory.prepare(cached)
        pods, services, deployments = self._claimer.claim(job)
        pods = mark_let_go(job, pods, self._expectations, self._clock)
        observed = Observed(
            job=job,
            pods=pods,
            services=services,
            problems=problems,
            deployments=deployments,
            pod_group=self._claimer.claim_pod_group(job),
            priorities={} if self._priority_classes is None else priorities_of(self._priority_classes.list()),
        )
        decided = plan(observed, self._clock.now(), self._plan_options)
        decided = without_unseen(job, decided, self._expectations)
        if self._archive is not None:
            decided = self._archive_first(self._archive, key, job, pods, decided)
        decided = self._hold_back(job, decided)
        self._cache_check.verify(job, decided, pods)
        note = self._memory.note(job.metadata.uid)
        if note is not None:
            decided = _with_note(decided, note)
        outcome = self._executor.execute(job, decided)
        if note is not None and outcome.recorded:
            self._memory.note_recorded(job.metadata.uid, note)
        self._requeue.after(key, job, decided, outcome)

    def _archive_first(self, archive: PodArchive, key: str, job: TFJob, pods: tuple[Pod, ...], decided: Plan) -> Plan:
        """Have the logs of pods kept that are to be deleted, and leave those for later whose logs are not."""
        leaving = doomed(decided, pods)
        if not leaving:
            return decided
        waiting = archive.prepare(job, leaving, partial(self.enqueue, key))
        return postpone(decided, job, waiting, archive.timeout) if waiting else decided

    def _hold_back(self, job: TFJob, decided: Plan) -> Plan:
        """Leave the first status to a later sync, if it may wait and has not waited long enough."""
        period = self._options.first_status_period
        if period <= 0 or not may_wait(job.status, decided):
            return decided
        now = self._clock.monotonic()
        left = self._memory.held_back_since(job.metadata.uid, now) + period - now
        return held_back(decided, left) if left > 0 else decided

    def _gone(self, job: TFJob) -> None:
        """A job was deleted: forget everything about it. Its objects are the garbage collector's."""
        if self._leading:
            self._metrics.job_deleted(job.metadata.namespace)
        self._queue.forget(job.metadata.key)
        self._forget(job.metadata.uid)

    def _forget(self, uid: str) -> None:
        self._expectations.forget_owner(uid)
        self._memory.forget(uid)
        self._cache_check.forget(uid)

    def _cached(self, namespace: str, name: str) -> TFJob | None:
        try:
            return self._jobs.get(namespace, name)
        except ObjectNotFound:
            return None

    def _when_leading(self, seconds: float) -> Callable[[str], None]:
        def enqueue(key: str) -> None:
            if self._leading:
                self._queue.add_after(key, seconds, is_retry=False) if seconds > 0 else self._queue.add(key)

        return enqueue


def _is_managed_by_others(job: TFJob) -> bool:
    policy = job.spec.run_policy
    return policy is not None and policy.managed_by not in (None, "", MANAGED_BY_OPERATOR)


def _with_note(decided: Plan, note: ReconcileNote) -> Plan:
    if decided.delete_job:
        return decided
    return msgspec.structs.replace(
        decided,
        status=msgspec.structs.replace(decided.status, last_reconcile_time=note.time.replace(microsecond=0)),
        write_status=decided.write_status or note.write,
    )
