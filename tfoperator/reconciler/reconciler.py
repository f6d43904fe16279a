"""The double check of the event-driven controller: the resync handler that compares caches with the live state.

Informers can be wrong in ways that they can't see, such as a watch event lost on the way. Their periodic resync hands
every job to this reconciler; when a job is due (`schedule`), its objects in the cache are compared with a live look
(`live`), what the watch has missed is repaired by listing anew, and the job is synced, which compares it with its
spec.

The set of jobs as such has a place of its own in the schedule, and the thread wakes for it by itself: a job that the
cache has never heard of has no resync, and if there is no other, nothing else would ask for a look.

A new leader goes on where the old one was (`last_comparison`): after a restart of the operator, quiet jobs are compared
when they are due, and not all of them after 15 s. Its caches are fresh lists then, so nothing was missed before. Those
of a standby that has waited for long are not: it looks at all jobs after the shortest interval, once, and each then
goes on with the interval that it had.

What it costs when nothing happens, N jobs: per look three paged, metadata-only lists, one more with gangs, and one with
TensorBoards; one look per `base` (15 s) at most, and one per `cap` (5 min) once all jobs have been quiet for ten
minutes. Each job's `status.lastReconcileTime` is written with other changes of its status, or else at most once per
`cap`, these writes spread over a fifth of it; a finished job's is not written any more.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tfoperator.api.job_conditions import final_condition
from tfoperator.api.v1.types import TFJob
from tfoperator.clock import Clock, StopSignal, SystemClock
from tfoperator.controller import Comparison, ControllerInformers
from tfoperator.expectations import Expectations
from tfoperator.informers import CONTROLLER_UID_INDEX, InformerGroup, Lister
from tfoperator.kube.errors import KubeError
from tfoperator.kube.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from tfoperator.kube.verbs import ApiClient
from tfoperator.reconciler.compare import Difference, Version, confirmed, differences
from tfoperator.reconciler.last_comparison import last_comparison, recorded_ago
from tfoperator.reconciler.live import LiveObjects, LiveState, look
from tfoperator.reconciler.schedule import BASE_INTERVAL, MAX_INTERVAL, Schedule

logger = logging.getLogger(__name__)

_JOBS = ""
"""Stands in the schedule, among the UIDs, for the set of jobs as such."""


class Reconcilable(Protocol):
    """What the reconciler asks of a controller; `TFJobController` is one."""

    def enqueue(self, key: str) -> None:
        """Sync a job soon."""
        ...

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Sync a job after a while."""
        ...

    def note_comparison(self, uid: str, comparison: Comparison) -> None:
        """Record the time of a comparison with the job's next status write."""
        ...


class ReconcilerMetrics:
    """Hooks; they must be quick and must not raise. Here each does nothing."""

    def looked(self, seconds: float, jobs: int) -> None:
        """A look at the live state took so long, and so many jobs were compared with it."""

    def look_failed(self) -> None:
        """The live state could not be read."""

    def repaired(self, resource: str, objects: int) -> None:
        """A cache had missed changes of so many objects; `expectations` as resource for events that never came."""


class _Suspicion(msgspec.Struct):
    """What looked wrong about a job at the last look, and waits to be confirmed by the next."""

    found: dict[str, dict[str, Difference]] = {}  # by resource and key
    waiting: bool = False  # for expected events, although the caches are right


class Reconciler:
    """Compares and repairs. Handlers are registered on construction; `start()` once leading, `stop()` joins."""

    def __init__(
        self,
        client: ApiClient,
        informers: ControllerInformers,
        controller: Reconcilable,
        *,
        expectations: Expectations,
        namespaces: Sequence[str] = ("",),
        keep: Callable[[str], bool] = lambda _: True,
        base: float = BASE_INTERVAL,
        cap: float = MAX_INTERVAL,
        clock: Clock | None = None,
        metrics: ReconcilerMetrics | None = None,
    ) -> None:
        """`base` (seconds) is also the informer's resync period and the shortest time between two looks.

        `keep` says of which namespaces the caches have objects.
        """
        self._client = client
        self._informers = informers
        self._owned: dict[Resource, InformerGroup[Any]] = {PODS: informers.pods, SERVICES: informers.services}
        if informers.gang is not None and informers.pod_groups is not None:
            self._owned[informers.gang.pod_groups] = informers.pod_groups
        self._jobs: Lister[TFJob] = informers.jobs.lister
        self._controller = controller
        self._expectations = expectations
        self._namespaces = tuple(namespaces)
        self._keep = keep
        self._base = base
        self._cap = cap
        self._clock = clock or SystemClock()
        self._metrics = metrics or ReconcilerMetrics()
        self._lock = threading.Condition()  # guards _schedule and _wanted
        self._schedule = Schedule(base=base, cap=cap)
        self._created = self._clock.monotonic()
        self._schedule.track(_JOBS, self._created)
        self._wanted = False
        self._stop = StopSignal()
        self._thread: threading.Thread | None = None
        # Used by the thread alone:
        self._job_suspicions: dict[str, Difference] = {}
        self._suspicions: dict[str, _Suspicion] = {}
        informers.jobs.add_handler(self, resync_period=base, name="reconciler")

    # The resync handler.

    def on_add(self, obj: TFJob, *, initial: bool) -> None:  # noqa: ARG002 - the protocol's signature
        """A job is there: look at it after the shortest interval, or when it was due before we came."""
        with self._lock:
            self._begin(obj, self._clock.monotonic())

    def on_update(self, old: TFJob, new: TFJob) -> None:
        """A job changed: its backoff begins anew. Or this is a resync: see whether it is due."""
        now = self._clock.monotonic()
        uid = new.metadata.uid
        with self._lock:
            if old.metadata.uid != uid:
                self._schedule.forget(old.metadata.uid)
            if self._schedule.due_at(uid) is None:
                self._begin(new, now)
            if old.metadata.resource_version != new.metadata.resource_version:
                if _has_changed(old, new):
                    self._schedule.reset(uid, now)
            elif self._schedule.is_due(uid, now) and self._thread is not None:
                self._wanted = True
                self._lock.notify_all()

    def on_delete(self, obj: TFJob, *, final_state_unknown: bool) -> None:  # noqa: ARG002 - the protocol's signature
        """A job is gone."""
        with self._lock:
            self._schedule.forget(obj.metadata.uid)

    def _begin(self, job: TFJob, now: float, within: float | None = None) -> None:
        last = last_comparison(job, self._clock.now())
        if last is None:
            self._schedule.forget(job.metadata.uid)
            self._schedule.track(job.metadata.uid, now)
        else:
            self._schedule.resume(job.metadata.uid, now, ago=last.ago, quiet=last.quiet, within=within)

    # Life.

    def start(self) -> None:
        """Begin to compare. Raises RuntimeError if called twice."""
        jobs = self._jobs.list()
        with self._lock:
            if self._thread is not None:
                raise RuntimeError("this reconciler has been started before")
            now = self._clock.monotonic()
            self._schedule.again(_JOBS, now)
            # What was known when a job was first seen is old by now: until today another process has compared it.
            waited_long = now - self._created >= self._cap
            for job in jobs:
                self._begin(job, now, within=self._base if waited_long else None)
            self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 10) -> bool:
        """End, and wait up to `timeout` real seconds; False if a request is still under way."""
        self._stop.set()
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
                    if not self._clock.wait_until(self._lock, self._schedule.due_at(_JOBS)):
                        break
                self._wanted = False
            if self._stop.is_set():
                return
            try:
                self.reconcile()
            except KubeError as error:
                self._metrics.look_failed()
                logger.warning("can't compare with the API server: %s; trying again later", error)
            except Exception:
                # The double check must not end because it failed once.
                logger.exception("comparing with the API server failed unexpectedly")
            # A little less than the resync period, so that the next resync is not missed by a hair.
            if self._stop.wait(self._clock, self._base * 0.9):
                return

    # The comparison.

    def reconcile(self) -> int:
        """Compare the jobs that are due; returns how many. Makes no API call before something is due. Raises KubeError.

        When only the set of jobs is, that costs one list of them.
        """
        started = self._clock.monotonic()
        with self._lock:
            # Those that would be due before the next look come along: they cost nothing now, and a look then.
            due = set(self._schedule.due(started, slack=self._base / 2))
        if not due:
            return 0
        owned = self._caches_to_compare() if due != {_JOBS} else {}
        live = look(self._client, self._namespaces, tuple(owned), stopped=self._stop.is_set, keep=self._keep)
        if live is None:
            return 0
        jobs = self._jobs.list()
        known = [job for job in jobs if job.metadata.namespace not in live.closed]
        self._compare_jobs(known, live.jobs)
        lost: Counter[str] = Counter()
        compared = [job for job in known if job.metadata.uid in due]
        for job in compared:
            self._compare(job, live, owned, lost)
        for resource, group in owned.items():
            self._repair(group, lost[resource.plural])
        self._forget_gone(jobs)
        if live.closed:
            self._put_off([job for job in jobs if job.metadata.namespace in live.closed and job.metadata.uid in due])
        self._metrics.looked(self._clock.monotonic() - started, len(compared))
        return len(compared)

    def _put_off(self, unseen: Sequence[TFJob]) -> None:
        """Jobs that could not be looked at: were they due for ever, so would be a look at all others."""
        now = self._clock.monotonic()
        with self._lock:
            for job in unseen:
                self._schedule.checked(job.metadata.uid, now)

    def _caches_to_compare(self) -> dict[Resource, InformerGroup[Any]]:
        """The caches to compare: that of deployments only where a job has a TensorBoard, or once had."""
        boards = self._informers.deployments
        wanted = any(job.spec.tensor_board is not None for job in self._jobs.list()) or bool(boards.lister.list())
        return self._owned | {DEPLOYMENTS: boards} if wanted else self._owned

    def _compare_jobs(self, jobs: Sequence[TFJob], live: LiveObjects) -> None:
        """The set of jobs as such: one that the cache lacks has no other way to be noticed."""
        cached = {job.metadata.key: Version(job.metadata.uid, job.metadata.resource_version) for job in jobs}
        found = differences(live.of(""), cached, live.resource_version)
        lost = confirmed(self._job_suspicions, found)
        self._job_suspicions = {key: found[key] for key in found.keys() - lost}
        now = self._clock.monotonic()
        with self._lock:
            if found:
                self._schedule.again(_JOBS, now)
            else:
                self._schedule.checked(_JOBS, now)
        self._repair(self._informers.jobs, len(lost))

    def _compare(
        self, job: TFJob, live: LiveState, owned: Mapping[Resource, InformerGroup[Any]], lost: Counter[str]
    ) -> None:
        uid, key = job.metadata.uid, job.metadata.key
        before = self._suspicions.pop(uid, _Suspicion())
        found: dict[str, dict[str, Difference]] = {}
        missed: set[str] = set()
        for resource, group in owned.items():
            kind = resource.plural
            found[kind] = _differences(job, live.owned[kind], group.lister)
            certain = confirmed(before.found.get(kind, {}), found[kind])
            lost[kind] += len(certain)
            missed |= certain
        right = not any(found.values())
        waiting = right and not self._expectations.owner_satisfied(uid)
        wedged = waiting and before.waiting
        for name in sorted(missed):
            logger.warning("the cache has missed a change of %s", name, extra={"job": key})
        if wedged:
            logger.warning("an expected event never came, going on without it", extra={"job": key})
            self._metrics.repaired("expectations", 1)
        if wedged:
            self._expectations.forget_owner(uid)
        elif not missed and (not right or waiting):
            # What was missed fulfils the expectations when it is listed; to forget them before that would be to believe
            # a cache that is known to be wrong.
            self._suspicions[uid] = _Suspicion(found, waiting)
        now = self._clock.monotonic()
        with self._lock:
            if right and not waiting:
                self._schedule.checked(uid, now)
            else:
                self._schedule.again(uid, now)
        self._record(job)

    def _record(self, job: TFJob) -> None:
        """Note the time, and sync the job: that is its comparison with the spec."""
        meta, now = job.metadata, self._clock.now()
        # A time in the future, of a clock that was wrong, would otherwise stand for as long as nothing else is written.
        overdue = abs(recorded_ago(job, now)) >= self._cap and final_condition(job) is None
        self._controller.note_comparison(meta.uid, Comparison(time=now, write=overdue))
        if overdue:
            spread = zlib.crc32(meta.uid.encode()) / 2**32
            self._controller.enqueue_after(meta.key, spread * self._cap / 5)
        else:
            self._controller.enqueue(meta.key)

    def _repair(self, informers: InformerGroup[Any], lost: int) -> None:
        if lost:
            logger.warning("the cache of %s has missed %d changes: listing anew", informers.name, lost)
            self._metrics.repaired(informers.name, lost)
            informers.relist()

    def _forget_gone(self, jobs: Sequence[TFJob]) -> None:
        uids = {job.metadata.uid for job in jobs}
        self._suspicions = {uid: one for uid, one in self._suspicions.items() if uid in uids}
        with self._lock:
            self._schedule.keep_only({_JOBS, *uids})


def _differences(job: TFJob, live: LiveObjects, lister: Lister[Any]) -> dict[str, Difference]:
    cached = {
        one.metadata.key: Version(one.metadata.uid, one.metadata.resource_version)
        for one in lister.by_index(CONTROLLER_UID_INDEX, job.metadata.uid)
    }
    return differences(live.of(job.metadata.uid), cached, live.resource_version)


def _has_changed(old: TFJob, new: TFJob) -> bool:
    """Whether more than the record of our own comparison is different."""
    if old.metadata.generation != new.metadata.generation or old.spec != new.spec:
        return True
    return old.status != msgspec.structs.replace(new.status, last_reconcile_time=old.status.last_reconcile_time)
