"""The controller's memory of a job between two syncs. Losing it costs time, never correctness.

It holds the defaulted and validated spec (the same for one generation, and a job is synced far more often than
changed); the API server's refusals, so that they become a condition instead of a loop; the warnings already given; the
comparison with the live state that is still to be recorded; the job's usage; when the status was written, and since
when a quota has no room; the replicas that could not be created, and why. Refusals of a spec are forgotten with each
comparison: a policy, or a webhook that breaks pods, may have been fixed since, and no event reports that. (The status
written last is in `cache_lag`.)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping

import msgspec

from tfoperator.api.cached_job import problems_of, without_templates
from tfoperator.api.defaults import default
from tfoperator.api.kueue.queues import uncounted_types
from tfoperator.api.replicas.templates import hash_of, is_hash
from tfoperator.api.v1.status import JobUsage, TFJobStatus
from tfoperator.api.v1.types import DataService, ReplicaSpec, TFJob, TFJobSpec
from tfoperator.base.clock import whole_second
from tfoperator.controller.plan.values.observed import Comparison, Observed, Refusals
from tfoperator.controller.pods.data_service import DATA_SERVICE_FIELD


class _Entry(msgspec.Struct):
    known_since: float = 0.0
    failed: Mapping[str, int] = {}
    not_created: Refusals | None = None
    generation: int = -1
    source: TFJobSpec | None = None
    spec: TFJobSpec | None = None
    problems: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    comparison: Comparison | None = None
    settled: frozenset[str] | None = None
    uncounted: tuple[str, ...] = ()
    usage: JobUsage | None = None
    written_at: float = -math.inf
    no_room_since: float | None = None
    warned: set[str] = set()


class JobMemory:
    """Per job (by UID) facts, kept from `recall` until `forget`. Thread-safe.

    Only `recall` begins to remember a job: calls for a forgotten job have no effect.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _entries and every entry in it
        self._entries: dict[str, _Entry] = {}

    def recall(self, cached: TFJob, now: float) -> Observed:
        """Return what is remembered of a job; the rest is left at its defaults. `now` is monotonic.

        The problems of the defaulted spec are computed once per generation. Templates that were edited since the
        previous generation are reported once, at the first call for a generation. A generation is trusted only together
        with its spec: after a restore from a backup another spec may have it. `cached` stays as it is.
        """
        meta = cached.metadata
        with self._lock:
            entry = self._entries.setdefault(meta.uid, _Entry(now))
            source, spec = entry.source, entry.spec
            if source is not None and spec is not None and entry.generation == meta.generation > 0:
                if source is cached.spec:
                    return _remembered(entry, cached, spec, now)
                if _is_same(source, cached.spec):
                    # Made anew from the newest object: the cache and the memory have one copy of its templates.
                    entry.source, entry.spec = cached.spec, default(cached).spec
                    return _remembered(entry, cached, entry.spec, now)
        defaulted = default(cached)
        problems = problems_of(defaulted)
        with self._lock:
            edited = () if entry.spec is None else _edited_templates(entry.spec, defaulted.spec)
            entry.generation, entry.spec, entry.problems, entry.refusals = meta.generation, defaulted.spec, problems, ()
            entry.source = cached.spec
            entry.uncounted = uncounted_types(cached.spec.tf_replica_specs)
            entry.warned.clear()
            return _remembered(entry, cached, defaulted.spec, now, edited)

    def refuse(self, uid: str, generation: int, problem: str) -> bool:
        """Record that the API server called this generation's request invalid: a problem like any found by validation.

        Returns False if it can't be recorded, because the job is gone or its generation is not known.
        """
        with self._lock:
            entry = self._of(uid)
            if generation <= 0 or entry.generation != generation:
                return False
            if problem not in entry.refusals:
                entry.refusals = (*entry.refusals, problem)
            return True

    def first_warning(self, uid: str, what: str) -> bool:
        """Return whether `what` is reported for the first time about this generation of the job."""
        with self._lock:
            entry = self._entries.get(uid)
            if entry is None or what in entry.warned:
                return False
            entry.warned.add(what)
            return True

    def no_room(self, uid: str, now: float) -> float:
        """Note that a quota has no room for a pod of the job; return for how many seconds. `now` is monotonic."""
        with self._lock:
            entry = self._of(uid)
            if entry.no_room_since is None:
                entry.no_room_since = now
            return now - entry.no_room_since

    def has_room(self, uid: str) -> None:
        """Note that all pods of the job that were to be created have been."""
        with self._lock:
            self._of(uid).no_room_since = None

    def compared(self, uid: str, comparison: Comparison) -> None:
        """Record a comparison with the next status write, and retry requests that were refused."""
        with self._lock:
            entry = self._of(uid)
            entry.comparison = comparison
            entry.refusals = ()

    def recorded(self, uid: str, status: TFJobStatus, now: float) -> None:
        """Note that the API server has this status since `now` (monotonic), and perhaps with it the comparison."""
        with self._lock:
            entry = self._of(uid)
            comparison = entry.comparison
            if comparison is not None and status.last_reconcile_time == whole_second(comparison.time):
                entry.comparison = None
            entry.written_at = now

    def used(self, uid: str, usage: JobUsage | None) -> None:
        """Remember the job's usage as a plan computed it, whether or not the status is written; ignore older usage."""
        with self._lock:
            entry = self._of(uid)
            if usage is not None and (entry.usage is None or usage.time >= entry.usage.time):
                entry.usage = usage

    def usage(self, uid: str) -> JobUsage | None:
        """Return the newest argument of `used`; None for a job that is not remembered."""
        with self._lock:
            return self._of(uid).usage

    def failed(self, uid: str) -> Mapping[str, int]:
        """Return the last argument of `note_failed`."""
        with self._lock:
            return self._of(uid).failed

    def note_failed(self, uid: str, failed: Mapping[str, int]) -> None:
        """Remember the replicas that could not be created at the last try, numbered as in `slow_start`."""
        with self._lock:
            self._of(uid).failed = failed

    def not_created(self, uid: str) -> Refusals | None:
        """Return the last argument of `note_not_created`; None before the first call."""
        with self._lock:
            return self._of(uid).not_created

    def note_not_created(self, uid: str, refusals: Refusals) -> None:
        """Remember why the API server refuses to create objects of replicas."""
        with self._lock:
            self._of(uid).not_created = refusals

    def settle(self, uid: str, versions: frozenset[str] | None) -> None:
        """Note that the last sync found nothing to do or await, with the job's objects at these versions.

        `versions` is None if it found something. Later syncs retry requests that the API server refuses.
        """
        with self._lock:
            entry = self._of(uid)
            entry.settled = None if entry.refusals else versions

    def settled(self, uid: str) -> frozenset[str] | None:
        """Return the last argument of `settle`."""
        with self._lock:
            return self._of(uid).settled

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        with self._lock:
            self._entries.pop(uid, None)

    def _of(self, uid: str) -> _Entry:
        """Return the memory of a job, or an entry that is not kept if the job was forgotten. Call it with the lock."""
        return self._entries.get(uid) or _Entry()


def _remembered(entry: _Entry, cached: TFJob, spec: TFJobSpec, now: float, edited: tuple[str, ...] = ()) -> Observed:
    return Observed(
        TFJob(metadata=cached.metadata, spec=spec, status=cached.status, decode_error=cached.decode_error),
        problems=entry.problems + entry.refusals,
        known_for=now - entry.known_since,
        comparison=entry.comparison,
        edited_templates=edited,
        uncounted_types=entry.uncounted,
        status_age=now - entry.written_at,
        usage=entry.usage,
        not_created=entry.not_created,
    )


def _is_same(before: TFJobSpec, now: TFJobSpec) -> bool:
    """Return whether the specs are equal, or the job has ended since, so that the cache keeps its templates no longer.

    The second comparison makes hashes of all templates: it is made last.
    """
    return before == now or now == without_templates(before)


def _edited_templates(before: TFJobSpec, now: TFJobSpec) -> tuple[str, ...]:
    """Return the replica types that both specs have, and whose pods would now be made from something else."""
    both = [kind for kind in now.tf_replica_specs if kind in before.tf_replica_specs]
    beside = (DATA_SERVICE_FIELD,) if _is_edited_service(before.data_service, now.data_service) else ()
    if _made_from(before) != _made_from(now):
        return (*both, *beside)
    edited = (kind for kind in both if _is_edited(before.tf_replica_specs[kind], now.tf_replica_specs[kind]))
    return (*edited, *beside)


def _is_edited_service(before: DataService | None, now: DataService | None) -> bool:
    """Return whether the pods of a data service that both specs have would now be made from something else."""
    if before is None or now is None or before == now:
        return False
    return (before.work_dir or "") != (now.work_dir or "") or _differ(before.template, now.template)


def _made_from(spec: TFJobSpec) -> tuple[object, ...]:
    """Return what the pods of all types are made from, beside their templates and how many there are."""
    given = spec.cluster_arguments, spec.enable_dynamic_worker, spec.evaluator_in_cluster
    return spec.checkpoint, spec.progress, spec.policy.restart_mode, spec.data_service is None, *map(bool, given)


def _is_edited(before: ReplicaSpec | None, now: ReplicaSpec | None) -> bool:
    """Compare as plain data where both are there: an API server may write the same in another order."""
    return _differ(*(msgspec.Raw() if replica is None else replica.template for replica in (before, now)))


def _differ(before: msgspec.Raw, now: msgspec.Raw) -> bool:
    if hash_of(before) == hash_of(now):
        return False
    return is_hash(before) or is_hash(now) or _plain(before) != _plain(now)


def _plain(raw: msgspec.Raw) -> object:
    return msgspec.json.decode(raw) if bytes(raw) else None
