"""The double check of the event-driven controller: an event handler that compares the caches with the live state.

Informers can't detect some errors, such as a watch event that was lost. The periodic resync of the informers passes
every job to this reconciler. If a job is due (`schedule`), the reconciler compares the job's objects in the cache with
the live state (`live`). If the watch has missed changes, the reconciler repairs the cache by another list. Then the job
is synced. If the last sync of a job left nothing to do, and the job's objects have not changed since, another sync
would make the same plan. Such a job is synced only at the longest interval.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.controller import Comparison, ControllerInformers, TFJobController
from tfoperator.expectations import Expectations
from tfoperator.informers import InformerGroup, Lister
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.reconciler.compare import Difference, Suspicion, merged
from tfoperator.reconciler.last_comparison import has_changed, last_comparison, record_age
from tfoperator.reconciler.live import Look, Looker
from tfoperator.reconciler.metrics import ReconcilerMetrics
from tfoperator.reconciler.schedule import Intervals, Schedule

logger = logging.getLogger(__name__)

_JOBS_KEY = ""
"""The key in the schedule for the comparison of the set of all jobs. All other keys are UIDs of jobs."""

_DifferencesByResource = Mapping[str, Mapping[str, Difference]]
"""The differences of one owner's objects, by resource and by key."""


class Reconciler:
    """Compares the caches with the live state, and repairs them.

    The constructor registers the event handler. Call `start()` when this process becomes the leader: it starts the
    thread that compares. `stop()` waits for the end of this thread.
    """

    def __init__(
        self,
        client: ApiClient,
        informers: ControllerInformers,
        controller: TFJobController,
        *,
        expectations: Expectations,
        intervals: Intervals,
        namespaces: Sequence[str] = ("",),
        clock: Clock | None = None,
        metrics: ReconcilerMetrics | None = None,
    ) -> None:
        """Initialize; `intervals.base` is also the resync period of this event handler."""
        self._informers = informers
        self._owned: dict[Resource, InformerGroup[Any]] = {PODS: informers.pods, SERVICES: informers.services}
        if informers.gang is not None and informers.pod_groups is not None:
            self._owned[informers.gang.pod_groups] = informers.pod_groups
        self._jobs: Lister[TFJob] = informers.jobs.lister
        self._controller = controller
        self._expectations = expectations
        self._base, self._cap = intervals
        self._clock = clock or SystemClock()
        # A little less than the cap: if all jobs are quiet, there is a look once per cap, and each is a whole look.
        self._looker = Looker(client, namespaces, whole_every=self._cap * 0.9, clock=self._clock)
        self._metrics = metrics or ReconcilerMetrics()
        self._lock = threading.Condition()  # guards _schedule and _wanted
        self._schedule = Schedule(intervals)
        self._created = self._clock.monotonic()
        self._schedule.track(_JOBS_KEY, self._created, records=False)
        self._wanted = False
        self._stop = StopSignal()
        self._thread: threading.Thread | None = None
        # Used by the thread only:
        self._suspicions: dict[str, Suspicion] = {}
        self._left: Set[str] = frozenset()  # the keys of Workloads without a job at the last look
        informers.jobs.add_handler(self, resync_period=self._base, name="reconciler")

    # The resync handler.

    def on_add(self, obj: TFJob) -> None:
        """Schedule a new job.

        The job is due after the shortest interval. If its status has the time of a comparison, the job is due one
        interval after this time.
        """
        with self._lock:
            self._begin(obj, self._clock.monotonic())

    def on_update(self, old: TFJob, new: TFJob) -> None:
        """Restart the interval of a job that has changed. On a resync, wake the thread that compares if the job is due.

        A job is due when its interval has passed since the time in its `lastReconcileTime`. If this process has
        compared the job later, without a record in the status, the interval begins at this later comparison.
        """
        now = self._clock.monotonic()
        uid = new.metadata.uid
        with self._lock:
            if old.metadata.uid != uid:
                self._schedule.forget(old.metadata.uid)
            if self._schedule.due_at(uid) is None:
                self._begin(new, now)
            ago = record_age(new, self._clock.now())
            if ago is not None:
                self._schedule.recorded(uid, now - ago)
            if old.metadata.resource_version != new.metadata.resource_version:
                if has_changed(old, new):
                    self._schedule.changed(uid, now)
                    if final_condition(new) is not None:
                        self._schedule.ended(uid)
            elif self._schedule.is_due(uid, now) and self._thread is not None:
                self._wanted = True
                self._lock.notify_all()

    def on_delete(self, obj: TFJob) -> None:
        """Forget a deleted job."""
        with self._lock:
            self._schedule.forget(obj.metadata.uid)

    def _begin(self, job: TFJob, now: float, within: float | None = None) -> None:
        last, active = last_comparison(job, self._clock.now()), final_condition(job) is None
        self._schedule.begin(job.metadata.uid, now, last, records=active, within=within)

    # Lifecycle.

    def start(self) -> None:
        """Begin to compare. Raises RuntimeError if it is called twice."""
        jobs = self._jobs.list()
        with self._lock:
            if self._thread is not None:
                raise RuntimeError("this reconciler was already started once")
            now = self._clock.monotonic()
            self._schedule.compared(_JOBS_KEY, now, matched=False)
            # Until now another process has compared the jobs, so begin again from the records in their status.
            waited_long = now - self._created >= self._cap
            for job in jobs:
                self._begin(job, now, within=self._base if waited_long else None)
            self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 10) -> bool:
        """End the comparison, and wait up to `timeout` seconds of real time.

        Return False if a request is still in progress.
        """
        self._stop.set()
        self._looker.close()
        with self._lock:
            self._lock.notify_all()
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not (self._wanted or self._stop.is_set()):
                    if not self._clock.wait_until(self._lock, self._schedule.due_at(_JOBS_KEY)):
                        break
                self._wanted = False
            if self._stop.is_set():
                return
            try:
                self.reconcile()
            except KubeError as error:
                self._metrics.look_failed()
                logger.warning("can't compare the caches with the API server: %s; trying again later", error)
            except Exception:
                # The double check must not end because it failed once.
                logger.exception("comparing with the API server failed unexpectedly")
            # A little less than the resync period, so that this thread is ready before the next resync.
            if self._stop.wait(self._clock, self._base * 0.9):
                return

    # The comparison.

    def reconcile(self) -> int:
        """Compare the jobs that are due, repair the caches, and return the number of compared jobs.

        A job with a difference is compared even if it is not due. If no job is due, the method makes no API call. If
        `stop` was called, or if the caches must be read again after a restore of the server, return 0. Raises
        KubeError if a request to the API server fails.
        """
        started = self._clock.monotonic()
        with self._lock:
            # Jobs that are due soon are included: in this look they cost nothing, later they would need another look.
            due, records = self._schedule.take(started, slack=self._base / 2)
        if not due:
            return 0
        # A Workload whose job is gone waits for pods of that job. The cache may have missed the end of such a pod.
        left = self._controller.look_at_left()
        # If only the set of jobs is due, the look costs a list of TFJobs, and with Kueue a list of Workloads.
        # Differences of the last look are compared again, even if their job is deleted: a lost event must be repaired.
        unsettled = _JOBS_KEY in self._suspicions or bool(self._looker.differing)
        all_due = bool(left) or due != {_JOBS_KEY} or unsettled
        owned = self._caches_to_compare() if all_due else self._outliving()
        look = self._looker.look(self._informers.jobs, owned)
        if look is None:
            return 0
        jobs = self._jobs.list()
        if look.went_back:
            self._begin_again(jobs)
            return 0
        uids = {job.metadata.uid for job in jobs}
        lost: Counter[str] = Counter()
        self._compare_jobs(look, uids, lost, outlived=bool(left - self._left))
        self._left = left
        # Jobs with differences are compared, too, even if they are not due.
        odd = {owner for differences in look.owned.values() for owner in differences}
        readable = [job for job in jobs if job.metadata.namespace not in look.closed]
        wanted = due | odd
        compared = [job for job in readable if job.metadata.uid in wanted]
        for job in compared:
            uid = job.metadata.uid
            self._compare(job, look.found_of(uid), lost, record_in=records.get(uid))
        for resource, group in {TFJOBS: self._informers.jobs, **owned}.items():
            self._repair(group, lost[resource.plural])
        uids.add(_JOBS_KEY)
        self._suspicions = {uid: suspicion for uid, suspicion in self._suspicions.items() if uid in uids}
        now = self._clock.monotonic()
        with self._lock:
            self._schedule.keep_only(uids)
            for job in jobs:
                # Jobs in namespaces that can't be read must not stay due, because each due job causes a look.
                if job.metadata.namespace in look.closed and job.metadata.uid in due:
                    self._schedule.compared(job.metadata.uid, now, matched=True)
                    self._schedule.recorded(job.metadata.uid, now)
        self._metrics.looked(self._clock.monotonic() - started, len(compared))
        return len(compared)

    def _begin_again(self, jobs: Sequence[TFJob]) -> None:
        """Read everything again after the server was restored from a backup.

        The versions in the caches are later than the server's versions, so a comparison is impossible.
        """
        logger.warning(
            "the API server's versions are older than the caches, as after a restored backup: listing everything again"
        )
        self._suspicions.clear()
        self._controller.forget_writes()
        caches = self._informers
        queues = () if caches.kueue is None else (caches.kueue.workloads, caches.kueue.flavors)
        for group in (caches.jobs, *self._owned.values(), *queues, caches.deployments, caches.priority_classes):
            if group is not None:
                group.relist()
        now = self._clock.monotonic()
        with self._lock:
            for uid in (_JOBS_KEY, *(job.metadata.uid for job in jobs)):
                self._schedule.compared(uid, now, matched=False)

    def _caches_to_compare(self) -> dict[Resource, InformerGroup[Any]]:
        """Return the caches of owned objects to compare. Include Deployments only if a job has or had a TensorBoard."""
        boards = self._informers.deployments
        had = bool(boards.lister.list()) or DEPLOYMENTS in self._looker.differing
        wanted = had or any(job.spec.tensor_board is not None for job in self._jobs.list())
        return {**self._owned, **self._outliving(), **({DEPLOYMENTS: boards} if wanted else {})}

    def _outliving(self) -> dict[Resource, InformerGroup[Any]]:
        """Return the cache of Workloads, which may exist longer than their jobs.

        Return {} if the operator does not watch Kueue's objects, or if the cache is not filled yet.
        """
        kueue = self._informers.kueue
        return {} if kueue is None or not kueue.are_complete else {WORKLOADS: kueue.workloads}

    def _compare_jobs(self, look: Look, uids: Set[str], lost: Counter[str], *, outlived: bool) -> None:
        """Compare the set of all jobs with the live state. Only this comparison finds a job that the cache lacks.

        It also finds differences of objects whose owner is not a job in the cache. `uids` are the UIDs of the jobs in
        the cache. The method adds to `lost`, by resource, the number of objects whose changes the cache missed.
        `outlived` is True if there is a Workload whose job is deleted, and the previous look did not find this
        Workload. In this case, the next comparison comes after the shortest interval.
        """
        differences = {
            kind: merged(group for owner, group in look.owned[kind].items() if owner not in uids) for kind in look.owned
        }
        differences[TFJOBS.plural] = look.jobs
        missed = self._suspicions.pop(_JOBS_KEY, Suspicion()).confirmed(differences)
        lost.update({kind: len(keys) for kind, keys in missed.items()})
        left = {
            kind: {key: difference for key, difference in differences[kind].items() if key not in missed[kind]}
            for kind in differences
        }
        if any(left.values()):
            self._suspicions[_JOBS_KEY] = Suspicion(left)
        now = self._clock.monotonic()
        with self._lock:
            self._schedule.compared(_JOBS_KEY, now, matched=not (outlived or any(differences.values())))

    def _compare(
        self, job: TFJob, differences: _DifferencesByResource, lost: Counter[str], *, record_in: float | None
    ) -> None:
        uid, key = job.metadata.uid, job.metadata.key
        before = self._suspicions.pop(uid, Suspicion())
        certain = before.confirmed(differences)
        lost.update({kind: len(keys) for kind, keys in certain.items()})
        missed = set().union(*certain.values())
        right = not differences
        waiting = right and bool(self._expectations.outstanding(uid))
        wedged = waiting and before.waiting
        for name in sorted(missed):
            logger.warning("the cache has missed a change of %s", name, extra={"job": key})
        if wedged:
            logger.warning("an expected event did not arrive, continuing without it", extra={"job": key})
            self._metrics.repaired("expectations", 1)
            self._expectations.forget_owner(uid)
        elif not missed and (not right or waiting):
            # Expectations are not forgotten here: if a change was missed, the next list fulfils them. Until then, the
            # controller must not trust the cache.
            self._suspicions[uid] = Suspicion(differences, waiting)
        now = self._clock.monotonic()
        with self._lock:
            self._schedule.compared(uid, now, matched=right and not waiting)
            if record_in is not None:
                self._schedule.recorded(uid, now)
            seldom = self._schedule.is_slowest(uid)
        # The time is written with the next status write of the job, or (`write`) by its own status write.
        comparison = Comparison(time=self._clock.now(), write=record_in is not None)
        self._controller.note_comparison(uid, comparison)
        if waiting or not right:
            self._controller.enqueue(key)
        elif record_in is not None:
            self._controller.enqueue_after(key, record_in)
        elif seldom or not self._controller.is_settled(job):
            self._controller.enqueue(key)

    def _repair(self, informers: InformerGroup[Any], lost: int) -> None:
        if lost:
            logger.warning("the cache of %s has missed %d changes: listing again", informers.name, lost)
            self._metrics.repaired(informers.name, lost)
            informers.relist()
