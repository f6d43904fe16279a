"""What the controller remembers of a job between two syncs. Losing it costs time, never correctness.

Three things: the defaulted and validated spec (the same for one generation, and a job is looked at far more often
than changed); the status last written, until the cache shows it, so that a sync on a stale cache can't take back a
restart count; and what the API server refused, so that it becomes a condition instead of a loop. That is forgotten with
each comparison with the live state: a policy, or a webhook that spoils pods, may have been mended without a word to us.
"""

from __future__ import annotations

import threading
from datetime import datetime

import msgspec

from tfoperator.api.defaults import default
from tfoperator.api.problems import errors
from tfoperator.api.v1.types import TFJob, TFJobSpec, TFJobStatus
from tfoperator.api.validation import validate

__all__ = ["JobMemory", "ReconcileNote", "is_older"]


def is_older(version: str, than: str) -> bool | None:
    """Whether one resourceVersion of an object precedes another; None if that can't be told.

    The Kubernetes API defines them as comparable decimal numbers since 1.35, and every API server that stores in etcd
    has always used such; anything else is only equal or not.
    """
    if version == than:
        return False
    if version.isascii() and version.isdigit() and than.isascii() and than.isdigit():
        return (len(version), version) < (len(than), than)
    return None


class ReconcileNote(msgspec.Struct, frozen=True):
    """A comparison with the live state that is still to be recorded in `status.lastReconcileTime`.

    `write` asks for a status write of its own if no other comes along.
    """

    time: datetime
    write: bool


class _Entry:
    __slots__ = (
        "cached_version",
        "generation",
        "held_back_since",
        "note",
        "problems",
        "refusals",
        "spec",
        "warned",
        "written",
        "written_on",
        "written_version",
    )

    def __init__(self) -> None:
        self.generation = -1
        self.spec: TFJobSpec | None = None
        self.problems: tuple[str, ...] = ()
        self.refusals: tuple[str, ...] = ()
        self.cached_version = ""  # the resourceVersion that the cache showed last
        self.written: TFJobStatus | None = None
        self.written_on = ""  # the cached resourceVersion at the time of the write
        self.written_version = ""  # the resourceVersion that the write produced
        self.note: ReconcileNote | None = None
        self.warned: set[str] = set()
        self.held_back_since: float | None = None


class JobMemory:
    """Per job (by UID) facts, kept from `prepare` until `forget`. Thread-safe.

    Only `prepare` begins to remember a job: what is said about one that has been forgotten is dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _entries and every entry in it
        self._entries: dict[str, _Entry] = {}

    def prepare(self, cached: TFJob) -> tuple[TFJob, tuple[str, ...]]:
        """The job as a plan wants it (defaulted, with the newest status known) and what is wrong with it.

        Its resourceVersion is the one that goes with that status, so that the next write can be made conditional on
        it. Defaults and validation are computed once per generation.
        """
        meta = cached.metadata
        with self._lock:
            entry = self._entries.setdefault(meta.uid, _Entry())
            spec, problems = entry.spec, entry.problems + entry.refusals
            known = spec is not None and entry.generation == meta.generation and meta.generation > 0
            entry.cached_version = meta.resource_version
            status = self._newest_status(entry, cached)
            if status is entry.written:
                meta = msgspec.structs.replace(meta, resource_version=entry.written_version)
        if not known or spec is None:
            defaulted = default(cached)
            spec = defaulted.spec
            problems = tuple(str(problem) for problem in errors(validate(defaulted)))
            with self._lock:
                entry.generation, entry.spec, entry.problems, entry.refusals = meta.generation, spec, problems, ()
                entry.warned.clear()
        return TFJob(metadata=meta, spec=spec, status=status, decode_error=cached.decode_error), problems

    def wrote(self, answer: TFJob) -> None:
        """A status write, of what the last `prepare` began, was answered with the object as it is now."""
        with self._lock:
            entry = self._entries.get(answer.metadata.uid)
            if entry is not None:
                entry.written = answer.status
                entry.written_on = entry.cached_version
                entry.written_version = answer.metadata.resource_version

    def refuse(self, uid: str, generation: int, problem: str) -> bool:
        """The API server called what this generation asks for invalid: for now a problem like any found by validation.

        False if it can't be remembered, because the job is gone or its generation is not known.
        """
        with self._lock:
            entry = self._entries.get(uid)
            if entry is None or generation <= 0 or entry.generation != generation:
                return False
            if problem not in entry.refusals:
                entry.refusals = (*entry.refusals, problem)
            return True

    def first_warning(self, uid: str, what: str) -> bool:
        """Whether `what` is said for the first time about this generation of the job."""
        with self._lock:
            entry = self._entries.get(uid)
            if entry is None or what in entry.warned:
                return False
            entry.warned.add(what)
            return True

    def held_back_since(self, uid: str, now: float) -> float:
        """Since when the job's first status waits: `now` if this is the first time that somebody asks."""
        with self._lock:
            entry = self._entries.get(uid)
            if entry is None:
                return now
            if entry.held_back_since is None:
                entry.held_back_since = now
            return entry.held_back_since

    def note_reconciled(self, uid: str, note: ReconcileNote) -> None:
        """Record the time of a comparison with the next status write, and try anew what was refused."""
        with self._lock:
            entry = self._entries.get(uid)
            if entry is not None:
                entry.note = note
                entry.refusals = ()

    def note(self, uid: str) -> ReconcileNote | None:
        """The comparison that waits to be recorded, if any."""
        with self._lock:
            entry = self._entries.get(uid)
            return entry.note if entry is not None else None

    def note_recorded(self, uid: str, note: ReconcileNote) -> None:
        """The status holds this note now (a newer one stays)."""
        with self._lock:
            entry = self._entries.get(uid)
            if entry is not None and entry.note == note:
                entry.note = None

    def forget(self, uid: str) -> None:
        """The job is gone."""
        with self._lock:
            self._entries.pop(uid, None)

    def __len__(self) -> int:
        """How many jobs are remembered."""
        with self._lock:
            return len(self._entries)

    @staticmethod
    def _newest_status(entry: _Entry, cached: TFJob) -> TFJobStatus:
        if entry.written is None:
            return cached.status
        version = cached.metadata.resource_version
        stale = is_older(version, entry.written_version)
        if stale is None:
            stale = version == entry.written_on
        if stale:
            return entry.written
        entry.written = None
        return cached.status
