"""The TFJob controller: events queue keys, worker threads take keys, and `sync_tfjob` brings a job closer to its spec.

A sync is five steps: observe, plan, verify, execute, requeue. A sync reads the caches, and the API server only if the
caches are not enough (see `sync_tfjob`). It calls the pure function `plan()` for all decisions, and executes the plan.
A sync is level-triggered: it acts on the whole observed state. So it does not matter which event caused the sync, how
often the sync runs, and at which moment the process was killed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set

import msgspec

from tfoperator.api.replicas.templates import NotKept
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.status import JobUsage
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.collaborators import Collaborators
from tfoperator.controller.execute.executor import PlanExecutor
from tfoperator.controller.execute.outcome import AlreadyReported, Requeue, requeue_after, requeue_after_errors
from tfoperator.controller.kinds import RESOURCES
from tfoperator.controller.kueue.keeper import Looked, QueueKeeper
from tfoperator.controller.ledger import Ledger
from tfoperator.controller.metrics import SyncResult
from tfoperator.controller.observe.handlers import JobHandler, connect
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.controller.observe.observer import Observer, versions_of
from tfoperator.controller.plan.combine import is_last_plan
from tfoperator.controller.plan.decide import is_managed_by_others, plan
from tfoperator.controller.plan.values.actions import Plan
from tfoperator.controller.plan.values.observed import Comparison, Observed, PlanOptions
from tfoperator.expectations import Expectations
from tfoperator.kube.protocol.errors import KubeError, namespace_is_ending
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.workqueue import RateLimitingQueue, Workers

logger = logging.getLogger(__name__)


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a controller."""

    threadiness: int
    """The number of jobs that are synced at a time."""

    plan: PlanOptions
    batch_period: float = 0.1
    """The number of seconds for which the controller collects events of pods and services before it syncs their job.

    The pods of a job often start and end together. Then one write of the job's status is enough for all these pods.
    """

    urgent_batch_period: float = 0.02
    """The same period for events for which a stopped replica waits: a pod has failed, or a name has become free.

    This period only has to be as long as the time between the first and the last event of pods that fail together.
    """


class TFJobController:
    """Brings every TFJob in the caches to the state in its spec, and keeps it there.

    `start()` queues all jobs; after that, each event queues its job. Call `start()` only after the first list of every
    cache: before that, the caches lack pods that exist, and the controller would treat these pods as gone. Before
    `start()`, for example in an operator that is not the leader, events queue no keys: `start()` queues every job in
    the caches. `stop()` lets running syncs finish and takes no new key.
    """

    def __init__(
        self,
        outside: Collaborators,
        informers: ControllerInformers,
        *,
        queue: RateLimitingQueue[str],
        expectations: Expectations,
        options: ControllerOptions,
    ) -> None:
        self._clock = outside.clock
        self._options = options
        self._plan_options = self._options.plan
        self._metrics = outside.metrics
        self._witnesses = outside.witnesses
        self._queue = queue
        self._jobs = informers.jobs.lister
        self._ledger = Ledger.of(outside.client, informers.owned, expectations=expectations, clock=outside.clock)
        self._observer = Observer(outside, informers, self._ledger)
        gang = informers.gang
        resources = RESOURCES if gang is None else {**RESOURCES, "podgroups": gang.pod_groups}
        self._executor = PlanExecutor(outside, resources, self._ledger, self.enqueue)
        self._keeper = None
        if informers.kueue is not None:
            pods = informers.pods.lister
            self._keeper = QueueKeeper(outside.client, informers.kueue, pods, outside.clock, self.enqueue_after)
        self._left = None if self._keeper is None else self._keeper.left
        self._metrics.syncs.workers(self._options.threadiness)
        self._workers = Workers(queue, self._process, self._options.threadiness, thread_name="tfjob-worker")
        self._leading = False  # set once, by start()
        period = self._options.batch_period
        now, soon = self._when_leading(0), self._when_leading(period)
        urgent = self._when_leading(min(self._options.urgent_batch_period, period))
        connect(informers, JobHandler(now, soon, self._gone, self._has_seen), expectations, soon, urgent)
        if informers.kueue is not None and self._left is not None:
            informers.kueue.queue_jobs(now)
            self._left.watch_pods(informers.pods, soon)

    # Lifecycle.

    def start(self) -> None:
        """Queue every job in the caches, and start the workers. Raises RuntimeError if called twice."""
        if self._leading:
            raise RuntimeError("this controller was already started once")
        # Set this first: from now on, events queue their jobs. The caches already contain the changes of earlier
        # events.
        self._leading = True
        jobs = self._jobs.list()
        self._ledger.cache_lag.inherit(jobs)
        for job in jobs:
            self._queue.add(job.metadata.key)
        for key in () if self._left is None else self._left.keys():
            self._queue.add(key)
        for job in jobs:
            # If the job was deleted before `inherit` recorded it, no later event makes the controller forget it.
            self._forget_if_gone(job)
        self._workers.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new key, and wait for running syncs; return False if a sync still runs after `timeout` seconds."""
        return self._workers.stop(timeout)

    def enqueue(self, key: str) -> None:
        """Queue a job (`namespace/name`) for a sync."""
        self._queue.add(key)

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Queue a job for a sync in `seconds`."""
        self._queue.add_after(key, seconds)

    def look_at_left(self) -> Set[str]:
        """Queue a check of each Workload whose job is not in the cache; return the queued keys.

        The check removes the operator's finalizer from the Workload, and so gives back the quota of the deleted job.
        In most cases, the key is the job's key (see `controller.kueue.left.key_of`). The check sends no request while a
        pod of the job still runs, or while the Workload has an owner and the garbage collector has not begun to delete
        the Workload.
        """
        keys = frozenset() if self._left is None else self._left.without_job(self._jobs)
        for key in keys:
            self._queue.add(key)
        return keys

    def plan_with(self, options: PlanOptions) -> None:
        """Replace the options of plans; syncs that begin after this call use the new options."""
        self._plan_options = options

    def queue_active_jobs(self) -> None:
        """Queue all jobs that have not ended, because the options of their plans have changed."""
        enqueue = self._when_leading(0)
        for job in self._jobs.list():
            if final_condition(job) is None:
                enqueue(job.metadata.key)

    def note_comparison(self, uid: str, comparison: Comparison) -> None:
        """Record the reconciler's comparison of a job's cached objects with the API server. `uid` is the job's UID.

        The next write of the job's status includes the result. The caller queues the job if the result needs a sync.
        """
        self._ledger.memory.compared(uid, comparison)

    def forget_writes(self) -> None:
        """Forget the statuses and Workloads that this process has written and that the caches do not show yet.

        Call this after the API server was restored from a backup: a status that was written after the backup is lost,
        and would never appear in the caches.
        """
        self._ledger.cache_lag.forget_writes()
        if self._keeper is not None:
            self._keeper.forget_writes()

    def is_settled(self, job: TFJob) -> bool:
        """Return whether the last sync of a job left nothing to do, and the caches show no change since."""
        return self._ledger.memory.settled(job.metadata.uid) == self._observer.versions(job)

    def newer_usage(self, job: TFJob) -> JobUsage | None:
        """Return the job's usage, with the goodput at this moment, if it is newer than the usage in the status.

        The usage (`JobUsage`) shows how the job has used its time, not its CPUs and memory. The goodput is the share of
        time spent in training. Return None if the usage in the status is as new, or if no usage is known. Thread-safe.
        """
        usage, written = self._ledger.memory.usage(job.metadata.uid), job.status.usage
        if usage is None or (written is not None and usage.time <= written.time):
            return None
        return usage.with_goodput(self._clock.now())

    # Syncing.

    def _process(self, key: str) -> None:
        syncs, began = self._metrics.syncs, self._clock.monotonic()
        syncs.began()
        result = SyncResult.ERROR
        try:
            result = _result(self.sync_tfjob(key))
        except KubeError as error:
            again = requeue_after_errors([error])
            result = _result(again)
            self._requeue(key, again)
        except Exception as error:
            logger.exception("the sync failed with an unexpected error", extra={"job": key})
            self._metrics.sync_failed(type(error).__name__)
            self._requeue(key, Requeue(retry=True))
        finally:
            syncs.ended(result, self._clock.monotonic() - began)

    def sync_tfjob(self, key: str) -> Requeue:
        """Bring one job (`namespace/name`) closer to its spec. For each key, only one call may run at a time.

        Return the time of the next sync; when this method returns, that sync is queued.

        In most cases, a sync reads only the caches. It reads from the API server, for example, if an orphan must be
        adopted, a creation or deletion has an unclear result, a pod has vanished, the job was taken over from another
        leader, or the plan needs a pod template of which the cache has only the hash. Raises KubeError if the job's
        objects can't be adopted or released, if the cache is stale, if a read from the API server fails, or if the
        Workload of a deleted job can't be released. It raises nothing for a failed API call of the plan: the job is
        then queued again for a retry.
        """
        cached = self._jobs.find(key)
        if cached is None or cached.metadata.deletion_timestamp is not None or is_managed_by_others(cached):
            self._release(key)
            self._queue.forget(key)
            return Requeue()
        try:
            requeue = self._sync(cached)
        finally:
            # If the job was deleted meanwhile, its handler may have run too early to forget the state of this sync.
            self._forget_if_gone(cached)
        self._requeue(key, requeue)
        return requeue

    def _sync(self, cached: TFJob) -> Requeue:
        observed = self._observer.observe(cached)
        try:
            looked, decided = self._planned(observed)
        except NotKept:
            looked, decided = self._planned(self._observer.with_templates(observed))
        observed = looked.observed
        self._ledger.cache_lag.verify(observed, decided)
        self._ledger.memory.used(cached.metadata.uid, decided.status.usage)
        outcome = self._executor.execute(observed.job, decided, observed.refused)
        if looked.error is not None:
            outcome.errors.append(looked.error)
        if outcome.gone:
            # The cache shows the deleted job for a while. The job's pods may have gone since this sync observed them.
            self._release(cached.metadata.key)
        requeue = requeue_after(decided, outcome)
        rests = requeue == Requeue() and not outcome.gone and is_last_plan(decided, observed)
        self._ledger.memory.settle(cached.metadata.uid, self._versions_after(observed) if rests else None)
        return requeue

    def _versions_after(self, observed: Observed) -> frozenset[str]:
        """Return the versions of a job and its objects after a plan that has written at most the job's status."""
        group = () if observed.pod_group is None else (observed.pod_group,)
        owned = (*observed.pods, *observed.services, *observed.deployments, *group)
        return versions_of(self._ledger.cache_lag.version(observed.job), owned)

    def _planned(self, observed: Observed) -> tuple[Looked, Plan]:
        """Return the plan, and the input from which it was made.

        With Kueue, the input includes `gate`, which shows whether the job may have pods now. Raises NotKept if the plan
        needs a pod template of the job and the cache has only the template's hash. Raises StaleCache if the cache lacks
        an object that exists.
        """
        looked = Looked(observed)
        if self._keeper is not None:
            looked = self._keeper.look(observed, self._plan_options.default_ps_image)
        return looked, plan(looked.observed, self._clock.now(), self._plan_options)

    def _requeue(self, key: str, requeue: Requeue) -> None:
        if requeue.errors:
            self._log_errors(key, requeue)
        if requeue.retry:
            self._queue.add_rate_limited(key, at_least=requeue.at_least)
        else:
            self._queue.forget(key)
        if requeue.at_once:
            self._queue.add(key)
        if requeue.after is not None:
            self._queue.add_after(key, requeue.after)

    def _log_errors(self, key: str, requeue: Requeue) -> None:
        extra = {"job": key}
        if not requeue.retry:
            logger.info("the namespace is being deleted, so the operator does nothing more for this job", extra=extra)
            return
        error = next(failure for failure in requeue.errors if not namespace_is_ending(failure))
        self._metrics.sync_failed(type(error).__name__)
        if requeue.at_least:
            logger.warning("%s; the server demands a pause of %.0f s", error, requeue.at_least, extra=extra)
            return
        level = logging.DEBUG if isinstance(error, AlreadyReported) else logging.WARNING
        logger.log(level, "%s; trying again (try %d)", error, self._queue.num_requeues(key) + 2, extra=extra)

    def _has_seen(self, job: TFJob) -> bool:
        """Return whether the last sync left nothing to do in exactly this state, so that no sync is needed.

        If so, record that the cache shows this state of the job: otherwise, the sync records it.
        """
        settled = self.is_settled(job)
        if settled:
            self._ledger.cache_lag.shows(job)
        return settled

    def _gone(self, job: TFJob) -> None:
        """Forget everything about a deleted job.

        The garbage collector deletes the job's objects, and the operator gives the job's quota back.
        """
        if self._leading:
            self._metrics.job_deleted(job.metadata.namespace)
        self._queue.forget(job.metadata.key)
        self._forget(job.metadata)

    def _forget_if_gone(self, job: TFJob) -> None:
        now = self._jobs.find(job.metadata.key)
        if now is None or now.metadata.uid != job.metadata.uid:
            self._forget(job.metadata)

    def _forget(self, job: ObjectMeta) -> None:
        """Forget a deleted job; if a Workload of the job still exists, queue a check of that Workload."""
        self._ledger.forget(job.uid)
        self._witnesses.forget(job.uid)
        if self._keeper is not None:
            self._keeper.forget(job)
        if self._leading and self._left is not None and self._left.has(job.key):
            self._queue.add(job.key)

    def _release(self, key: str) -> None:
        """Release the Workloads of a job that is deleted or being deleted, and so give back its quota.

        Releasing a Workload means to remove the operator's finalizer. As long as a pod of the job exists, nothing
        happens. Raises KubeError if a write to a Workload fails.
        """
        if self._left is not None:
            self._left.release(key)

    def _when_leading(self, seconds: float) -> Callable[[str], None]:
        def enqueue(key: str) -> None:
            if self._leading:
                self._queue.add_after(key, seconds, is_retry=False) if seconds > 0 else self._queue.add(key)

        return enqueue


def _result(requeue: Requeue) -> SyncResult:
    """Return the result of a sync for the metrics, from the reason for which the next sync is queued."""
    if requeue.errors and requeue.retry:
        return SyncResult.ERROR
    if requeue.retry or requeue.at_once:
        return SyncResult.REQUEUE
    return SyncResult.SUCCESS if requeue.after is None else SyncResult.REQUEUE_AFTER
