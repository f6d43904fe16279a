"""The facts about a job that the controller keeps between two syncs.

When the process ends, they are lost: this costs some time, but never makes a result wrong. For each job, the memory
has:

- The defaulted and validated spec: it is computed once per generation, because a job is synced far more often than
  changed.
- The API server's refusals, so that they become a condition instead of endless retries.
- The warnings that were already sent.
- The reconciler's last comparison of the caches with the API server, if the status does not record it yet.
- The job's usage, and when the status was written.
- Since when a quota has had no room, and which replicas could not be created, and why.

Each comparison removes the recorded refusals: somebody may have fixed a policy or a webhook in the meantime, and no
event reports this. (`cache_lag` has the status that was written last.)
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
from tfoperator.api.v1.parts.data_service import DataService
from tfoperator.api.v1.status import JobUsage, TFJobStatus
from tfoperator.api.v1.types import ReplicaSpec, TFJob, TFJobSpec
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
    """Facts about each job (by UID); they are kept from the call of `recall` until `forget`. Thread-safe.

    Only `recall` creates the entry of a job: other calls for a job without an entry have no effect.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _entries and every entry in it
        self._entries: dict[str, _Entry] = {}

    def recall(self, cached: TFJob, now: float) -> Observed:
        """Return the facts that are kept about a job; facts that were never recorded have their defaults.

        `cached` is the job in the informer's cache, which this method does not change. `now` is monotonic. The problems
        of the defaulted spec are computed once per generation, and kept. They are used again only if the generation and
        the spec are both the same: after a restore from a backup, the same generation may have a different spec. If
        templates were edited since the previous generation, only the first result for the new generation shows this.
        """
        meta = cached.metadata
        with self._lock:
            entry = self._entries.setdefault(meta.uid, _Entry(now))
            source, spec = entry.source, entry.spec
            if source is not None and spec is not None and entry.generation == meta.generation > 0:
                if source is cached.spec:
                    return _remembered(entry, cached, spec, now)
                if _is_same(source, cached.spec):
                    # Made again from the newest object, so that the cache and this memory share one copy of the
                    # templates.
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
        """Record that the API server refused a request for this generation as invalid.

        The plan treats `problem` like a problem that validation has found. Returns False if it was not recorded,
        because the job was deleted or has another generation now.
        """
        with self._lock:
            entry = self._of(uid)
            if generation <= 0 or entry.generation != generation:
                return False
            if problem not in entry.refusals:
                entry.refusals = (*entry.refusals, problem)
            return True

    def first_warning(self, uid: str, what: str) -> bool:
        """Return whether `what` has not been reported before for this generation of the job, and record it."""
        with self._lock:
            entry = self._entries.get(uid)
            if entry is None or what in entry.warned:
                return False
            entry.warned.add(what)
            return True

    def no_room(self, uid: str, now: float) -> float:
        """Record that a quota has no room for a pod of the job; return for how many seconds it has had no room.

        `now` is monotonic.
        """
        with self._lock:
            entry = self._of(uid)
            if entry.no_room_since is None:
                entry.no_room_since = now
            return now - entry.no_room_since

    def has_room(self, uid: str) -> None:
        """Record that no quota prevented the creation of the job's pods; this ends the time that `no_room` measures."""
        with self._lock:
            self._of(uid).no_room_since = None

    def compared(self, uid: str, comparison: Comparison) -> None:
        """Record that the reconciler compared caches with the API server; drop the refusals, so that a sync retries.

        The next status write includes the time of the comparison.
        """
        with self._lock:
            entry = self._of(uid)
            entry.comparison = comparison
            entry.refusals = ()

    def recorded(self, uid: str, status: TFJobStatus, now: float) -> None:
        """Record that the API server has this status since `now` (monotonic).

        If the status includes the comparison from `compared`, that comparison needs no further write.
        """
        with self._lock:
            entry = self._of(uid)
            comparison = entry.comparison
            if comparison is not None and status.last_reconcile_time == whole_second(comparison.time):
                entry.comparison = None
            entry.written_at = now

    def used(self, uid: str, usage: JobUsage | None) -> None:
        """Record the job's usage from a plan, even if the status is not written.

        Ignore usage that is older than the record.
        """
        with self._lock:
            entry = self._of(uid)
            if usage is not None and (entry.usage is None or usage.time >= entry.usage.time):
                entry.usage = usage

    def usage(self, uid: str) -> JobUsage | None:
        """Return the job's newest usage that `used` has recorded; None if there is none."""
        with self._lock:
            return self._of(uid).usage

    def failed(self, uid: str) -> Mapping[str, int]:
        """Return the last record of `note_failed`, by the names of objects; it is empty if there were no failures."""
        with self._lock:
            return self._of(uid).failed

    def note_failed(self, uid: str, failed: Mapping[str, int]) -> None:
        """Record which objects could not be created: the result of `slow_start.failures_after`.

        `failed` maps the name of each such object to a number: the later the failure, the higher the number.
        """
        with self._lock:
            self._of(uid).failed = failed

    def not_created(self, uid: str) -> Refusals | None:
        """Return why objects could not be created, as `note_not_created` has recorded it last; None if never."""
        with self._lock:
            return self._of(uid).not_created

    def note_not_created(self, uid: str, refusals: Refusals) -> None:
        """Record why the API server refuses to create objects of replicas."""
        with self._lock:
            self._of(uid).not_created = refusals

    def settle(self, uid: str, versions: frozenset[str] | None) -> None:
        """Record that the last sync left nothing to do or to wait for, with the job's objects at these versions.

        If the sync left something to do, `versions` is None. If the API server has refused requests for this job, None
        is recorded instead of `versions`, so that the next event leads to a sync, which may retry them.
        """
        with self._lock:
            entry = self._of(uid)
            entry.settled = None if entry.refusals else versions

    def settled(self, uid: str) -> frozenset[str] | None:
        """Return the versions that `settle` has recorded last; None if the job needs another sync."""
        with self._lock:
            return self._of(uid).settled

    def forget(self, uid: str) -> None:
        """Drop the entry of the job with this UID, because it was deleted."""
        with self._lock:
            self._entries.pop(uid, None)

    def _of(self, uid: str) -> _Entry:
        """Return the entry of a job; if the job was forgotten, return a new entry that is not kept.

        The caller must hold the lock.
        """
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
    """Return whether the specs are equal.

    The cache drops the templates of a job that has ended. So `before` is also compared without its templates. This
    second comparison is slow, because it hashes all templates, so it comes last.
    """
    return before == now or now == without_templates(before)


def _edited_templates(before: TFJobSpec, now: TFJobSpec) -> tuple[str, ...]:
    """Return the replica types in both specs whose new pods would differ from their present pods.

    The result also contains `spec.dataService` if new pods of the data service would differ.
    """
    both = [kind for kind in now.tf_replica_specs if kind in before.tf_replica_specs]
    beside = (DATA_SERVICE_FIELD,) if _is_edited_service(before.data_service, now.data_service) else ()
    if _made_from(before) != _made_from(now):
        return (*both, *beside)
    edited = (kind for kind in both if _is_edited(before.tf_replica_specs[kind], now.tf_replica_specs[kind]))
    return (*edited, *beside)


def _is_edited_service(before: DataService | None, now: DataService | None) -> bool:
    """Return whether both specs have a data service and its new pods would differ from its present pods."""
    if before is None or now is None or before == now:
        return False
    return (before.work_dir or "") != (now.work_dir or "") or _differ(before.template, now.template)


def _made_from(spec: TFJobSpec) -> tuple[object, ...]:
    """Return the parts of the spec from which all types' pods are made, without templates and numbers of replicas."""
    given = spec.cluster_arguments, spec.enable_dynamic_worker, spec.evaluator_in_cluster
    return spec.checkpoint, spec.progress, spec.policy.restart_mode, spec.data_service is None, *map(bool, given)


def _is_edited(before: ReplicaSpec | None, now: ReplicaSpec | None) -> bool:
    """Return whether the templates of two replica specs differ.

    The templates are compared as plain data, because an API server may write members in another order.
    """
    return _differ(*(msgspec.Raw() if replica is None else replica.template for replica in (before, now)))


def _differ(before: msgspec.Raw, now: msgspec.Raw) -> bool:
    if hash_of(before) == hash_of(now):
        return False
    return is_hash(before) or is_hash(now) or _plain(before) != _plain(now)


def _plain(raw: msgspec.Raw) -> object:
    return msgspec.json.decode(raw) if bytes(raw) else None
