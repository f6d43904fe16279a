"""The TFJob controller: events become keys, worker threads take keys, and a sync is look, decide, act.

A sync looks at the caches only (no API call), lets the pure `plan()` decide, and has the plan executed. It is
level-triggered: it acts on the whole observed state, so it doesn't matter which event caused it, how often it runs, or
what was going on when the process was killed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

import msgspec

from tfoperator.api import names
from tfoperator.api.rules import MANAGED_BY_OPERATOR
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.clock import Clock, SystemClock
from tfoperator.controller.actions import Observed, Plan, PlanOptions
from tfoperator.controller.archiving import PodArchive, doomed, postpone
from tfoperator.controller.claim import Claimer, matches
from tfoperator.controller.execute import Outcome, PlanExecutor, Recorder, namespace_is_ending
from tfoperator.controller.first_status import held_back, may_wait
from tfoperator.controller.gang import GangScheduler, PodGroup, decode_pod_group
from tfoperator.controller.gang_size import PriorityClass, decode_priority_class, priorities_of
from tfoperator.controller.handlers import ChildHandler, JobHandler, expectation_key
from tfoperator.controller.memory import JobMemory, ReconcileNote
from tfoperator.controller.metrics import ChildKind, ControllerMetrics, NoControllerMetrics
from tfoperator.controller.name_taken import SaidOnce
from tfoperator.controller.plan import plan
from tfoperator.controller.pod_groups import PodGroupWriter
from tfoperator.controller.slow_start import CallPool
from tfoperator.expectations import Expectations
from tfoperator.informers import (
    CONTROLLER_UID_INDEX,
    ORPHANS_INDEX,
    InformerGroup,
    ObjectNotFound,
    SharedInformerFactory,
    index_by_controller_uid,
    index_orphans,
)
from tfoperator.kube.errors import ApiError, KubeError, NotFoundError
from tfoperator.kube.objects import (
    Deployment,
    Pod,
    Service,
    decode_deployment,
    decode_partial,
    decode_pod,
    decode_service,
)
from tfoperator.kube.resources import DEPLOYMENTS, PODS, PRIORITY_CLASSES, SERVICES
from tfoperator.kube.verbs import ApiClient
from tfoperator.workqueue import RateLimitingQueue, ShutDown

__all__ = ["ControllerInformers", "ControllerOptions", "StaleCache", "TFJobController"]

logger = logging.getLogger(__name__)

_SOONEST_REPEAT = 1.0
"""Seconds until a plan's own timer may repeat a sync that failed; what is sooner is the rate limiter's business."""


class StaleCache(KubeError):
    """The cache misses an object that is there; acting on it would count a loss that has not happened."""


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


class ControllerInformers(msgspec.Struct, frozen=True):
    """The caches that a controller reads. What jobs make is in them only if it carries our label.

    Deployments are watched whether a job has a TensorBoard or not: a watch without events costs the API server next to
    nothing, and the first job that wants one doesn't have to wait for a cache. PodGroups and PriorityClasses are there
    if there is a gang scheduler, `gang`.
    """

    jobs: InformerGroup[TFJob]
    pods: InformerGroup[Pod]
    services: InformerGroup[Service]
    deployments: InformerGroup[Deployment]
    gang: GangScheduler | None = None
    pod_groups: InformerGroup[PodGroup] | None = None
    priority_classes: InformerGroup[PriorityClass] | None = None

    @classmethod
    def of(cls, factory: SharedInformerFactory, gang: GangScheduler | None = None) -> ControllerInformers:
        """The informers of a factory, with the indexes that a controller needs; start the factory afterwards."""
        selector = names.MANAGED_SELECTOR
        by_uid, orphans = index_by_controller_uid, index_orphans
        pod_groups, priority_classes = None, None
        if gang is not None:
            pod_groups = factory.informer(
                gang.pod_groups,
                decode_pod_group,
                label_selector=selector,
                indexers={CONTROLLER_UID_INDEX: by_uid, ORPHANS_INDEX: orphans},
            )
            priority_classes = factory.informer(PRIORITY_CLASSES, decode_priority_class)
        return cls(
            jobs=factory.informer(TFJOBS, decode_tfjob),
            pods=factory.informer(
                PODS,
                decode_pod,
                label_selector=selector,
                indexers={CONTROLLER_UID_INDEX: by_uid, ORPHANS_INDEX: orphans},
            ),
            services=factory.informer(
                SERVICES,
                decode_service,
                label_selector=selector,
                indexers={CONTROLLER_UID_INDEX: by_uid, ORPHANS_INDEX: orphans},
            ),
            deployments=factory.informer(
                DEPLOYMENTS,
                decode_deployment,
                label_selector=selector,
                indexers={CONTROLLER_UID_INDEX: by_uid, ORPHANS_INDEX: orphans},
            ),
            gang=gang,
            pod_groups=pod_groups,
            priority_classes=priority_classes,
        )

    @property
    def synced(self) -> bool:
        """Whether every cache is complete."""
        caches = (self.jobs, self.pods, self.services, self.deployments, self.pod_groups, self.priority_classes)
        return all(cache.has_synced for cache in caches if cache is not None)


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
        self._client = client
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
            pod_groups=None if gang is None else PodGroupWriter(client, gang, self._claimer, expectations),
        )
        self._workers: list[threading.Thread] = []
        self._leading = False  # set once, by start()
        # UIDs of jobs that others may have worked on until we began to lead, and that we have not acted on since. Only
        # a job's own sync takes it out, and jobs are never put in again.
        self._inherited: set[str] = set()
        self._stopping = threading.Event()
        now, soon = self._when_leading(0), self._when_leading(self._options.batch_period)
        informers.jobs.add_handler(JobHandler(now, soon, self._gone), resync_period=0, name="controller")
        informers.pods.add_handler(
            ChildHandler[Pod]("pods", self._jobs, expectations, soon), resync_period=0, name="controller"
        )
        informers.services.add_handler(
            ChildHandler[Service]("services", self._jobs, expectations, soon), resync_period=0, name="controller"
        )
        informers.deployments.add_handler(
            ChildHandler[Deployment]("deployments", self._jobs, expectations, soon), resync_period=0, name="controller"
        )
        if pod_groups is not None:
            pod_groups.add_handler(
                ChildHandler[PodGroup]("podgroups", self._jobs, expectations, soon), resync_period=0, name="controller"
            )

    # Life.

    def start(self) -> None:
        """Start the workers. Raises RuntimeError if called twice."""
        if self._leading:
            raise RuntimeError("this controller has been started before")
        # First this: what a handler is told from now on is queued, and what it was told before is in the cache.
        self._leading = True
        jobs = self._jobs.list()
        self._inherited.update(job.metadata.uid for job in jobs)
        for job in jobs:
            self._queue.add(job.metadata.key)
        self._workers = [
            threading.Thread(target=self._work, name=f"tfjob-worker-{number}", daemon=True)
            for number in range(self._options.threadiness)
        ]
        for worker in self._workers:
            worker.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new key, wait up to `timeout` real seconds for running syncs; False if one is still running."""
        self._stopping.set()
        finished = self._queue.shut_down_with_drain(timeout)
        if finished:
            for worker in self._workers:
                worker.join()
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

    def _work(self) -> None:
        while True:
            try:
                key = self._queue.get()
            except ShutDown:
                return
            try:
                if not self._stopping.is_set():
                    self._process(key)
            finally:
                self._queue.done(key)

    def _process(self, key: str) -> None:
        try:
            self.sync_tfjob(key)
        except KubeError as error:
            self._retry(key, [error])
        except Exception as error:
            logger.exception("the sync failed unexpectedly", extra={"job": key})
            self._metrics.sync_failed(type(error).__name__)
            self._queue.add_rate_limited(key)

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
        pods = self._without_let_go(job, pods)
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
        decided = self._gate(job, decided)
        if self._archive is not None:
            decided = self._archive_first(self._archive, key, job, pods, decided)
        decided = self._hold_back(job, decided)
        if decided.absent or (job.metadata.uid in self._inherited and decided.acts):
            self._make_sure(job, decided.absent, frozenset(pod.metadata.uid for pod in pods))
        note = self._memory.note(job.metadata.uid)
        if note is not None:
            decided = _with_note(decided, note)
        outcome = self._executor.execute(job, decided)
        if note is not None and outcome.recorded:
            self._memory.note_recorded(job.metadata.uid, note)
        self._follow_up(key, job, decided, outcome)

    def _follow_up(self, key: str, job: TFJob, decided: Plan, outcome: Outcome) -> None:
        if outcome.gone:
            self._queue.forget(key)
            return
        meta = job.metadata
        if outcome.refused and self._memory.refuse(meta.uid, meta.generation, outcome.refused):
            self._queue.forget(key)
            self._queue.add(key)
            return
        if outcome.errors:
            self._retry(key, outcome.errors)
        elif outcome.waiting:
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)
        if decided.requeue_after is not None:
            # A plan that was not carried out as a whole must not overtake the waiting for its repetition by much.
            undone = bool(outcome.errors) or outcome.waiting
            self._queue.add_after(key, max(decided.requeue_after, _SOONEST_REPEAT if undone else 0.0))

    def _retry(self, key: str, errors: list[KubeError]) -> None:
        extra = {"job": key}
        if all(namespace_is_ending(error) for error in errors):
            logger.info("its namespace is being deleted: nothing more is done about it", extra=extra)
            self._queue.forget(key)
            return
        error = next(one for one in errors if not namespace_is_ending(one))
        self._metrics.sync_failed(type(error).__name__)
        wishes = [one.retry_after for one in errors if isinstance(one, ApiError) and one.retry_after is not None]
        if wishes:
            logger.warning("%s; trying again in %.0f s as the server asks", error, max(wishes), extra=extra)
            self._queue.add_after(key, max(wishes))
            return
        # It has been said with an event.
        level = logging.DEBUG if isinstance(error, SaidOnce) else logging.WARNING
        logger.log(level, "%s; trying again (try %d)", error, self._queue.num_requeues(key) + 2, extra=extra)
        self._queue.add_rate_limited(key)

    def _without_let_go(self, job: TFJob, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """The pods, those that we have deleted marked so: the cache may show them alive for a while.

        Taken for alive, a pod of a job that was suspended and resumed at once would count as started again, and its
        end, once it is seen, as a loss.
        """
        uid = job.metadata.uid
        if self._expectations.owner_satisfied(uid):
            return pods
        now = self._clock.now()

        def marked(pod: Pod) -> Pod:
            meta = pod.metadata
            key = expectation_key(uid, meta.labels.get(names.LABEL_REPLICA_TYPE, ""), "pods")
            pending = self._expectations.pending(key)
            if meta.deletion_timestamp is not None or pending is None or meta.uid not in pending[1]:
                return pod
            return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, deletion_timestamp=now))

        return tuple(marked(pod) for pod in pods)

    def _gate(self, job: TFJob, decided: Plan) -> Plan:
        """Leave out what would act on a cache that has not yet shown our own last writes."""
        uid = job.metadata.uid
        if decided.delete_job or self._expectations.owner_satisfied(uid):
            return decided

        def trusted(replica_type: str | None, kind: ChildKind) -> bool:
            return self._expectations.satisfied(expectation_key(uid, replica_type or "", kind))

        create_pods = tuple(one for one in decided.create_pods if trusted(one.replica_type, "pods"))
        if decided.absent and len(create_pods) < len(decided.create_pods):
            # A pod that is not seen yet must not be counted as lost: wait for the cache with everything.
            return Plan(status=job.status)
        pod_group = trusted(None, "podgroups")
        return msgspec.structs.replace(
            decided,
            delete_pod_group=decided.delete_pod_group if pod_group else None,
            create_pod_group=decided.create_pod_group if pod_group else None,
            create_pods=create_pods,
            delete_pods=tuple(one for one in decided.delete_pods if trusted(one.replica_type, "pods")),
            create_services=tuple(one for one in decided.create_services if trusted(one.replica_type, "services")),
            delete_services=tuple(one for one in decided.delete_services if trusted(one.replica_type, "services")),
            board=tuple(one for one in decided.board if trusted(None, one.kind)),
        )

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

    def _make_sure(self, job: TFJob, absent: tuple[str, ...], seen: frozenset[str]) -> None:
        """Look up the job, and pods that vanished without our doing. Raises StaleCache if the cache is behind.

        `seen` are the UIDs of the job's pods in the cache.

        A new leader's cache can be behind what its predecessor saw and did: behind the pods that it created, or behind
        the end of the job, after which it cleaned them up, or behind the user's resuming it. This is rare and costs a
        GET of the job and one per pod that has vanished; believing the cache would cost a restart that never was, run
        a finished job again, or take the pods from a running one.
        """
        calls: list[Callable[[], str]] = [partial(self._is_there, job, name, seen) for name in absent]
        calls.append(partial(self._has_changed, job))
        unseen = [what for what in self._pool.all(calls) if what]
        if unseen:
            raise StaleCache(f"{unseen[0]}, but the cache does not show it yet")
        self._inherited.discard(job.metadata.uid)

    def _is_there(self, job: TFJob, name: str, seen: frozenset[str]) -> str:
        try:
            meta = self._client.get(PODS, job.metadata.namespace, name, decode_partial).metadata
        except NotFoundError:
            return ""
        if meta.controller is None or meta.controller.uid != job.metadata.uid or meta.uid in seen:
            # If the cache shows it, then not as this replica: somebody changed its labels.
            return ""
        if not matches(meta.labels, job.metadata.name):
            # Without our labels no cache will ever show it, however long we wait.
            self._claimer.release(job, PODS, meta, decode_partial)
            return ""
        return f"pod {name} is there"

    def _has_changed(self, job: TFJob) -> str:
        meta = job.metadata
        try:
            live = self._client.get(TFJOBS, meta.namespace, meta.name, decode_partial).metadata
        except NotFoundError:
            return "the job is gone"
        return "" if live.resource_version == meta.resource_version else "the job has changed"

    def _gone(self, job: TFJob) -> None:
        """A job was deleted: forget everything about it. Its objects are the garbage collector's."""
        if self._leading:
            self._metrics.job_deleted(job.metadata.namespace)
        self._queue.forget(job.metadata.key)
        self._forget(job.metadata.uid)

    def _forget(self, uid: str) -> None:
        self._expectations.forget_owner(uid)
        self._memory.forget(uid)
        self._inherited.discard(uid)

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
