"""Decides the number of workers of an elastic job; uses only numbers. Pure.

A probe is a pod that never runs the program. It only shows whether there is room for one more worker.

These are the rules; the first rule that applies decides. A pod has room if it has a node and fits in the quotas.

1. While pods for an earlier number are being deleted, or replicas restart, the number does not change.
2. If a user (or an autoscaler) has lowered the number in the spec below the current number, or the job's queue has
  admitted fewer workers than the current number, the job gets the lower number at once.
3. If the policy's minimum was raised above the current number, the job gets that minimum at once.
4. If workers have lacked room for `shrinkAfterSeconds`, the job continues with the workers that have room, but at
  least `minReplicas`. If the job has no more than `minReplicas` workers, it waits for room. A chief that lacks room
  counts like a worker, because it can get the room of a worker. An evaluator that lacks room does not count.
5. If the job has fewer workers than wanted, all its present workers run, and the last change was at least
  `growAfterSeconds` ago, the operator tests with probes whether there is room for the missing workers. After a user has
  raised the number in the spec, the operator makes this test without a delay. When a scheduler has answered, the job
  continues with the additional workers for which there is room.

So the number of workers grows at most once in `growAfterSeconds`, unless a user scales the job.

A job starts with the number of workers that its queue admits (without a queue, with the number in its spec). If the
queue had stopped the job, and now admits another number than before, this counts as a change in the status, too. After
a suspension by a user, the job starts anew.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.api.v1.parts.elastic import MAX_CHANGES, ElasticPolicy, ElasticStatus
from tfoperator.base.clock import seconds_between, whole_second

_SKEW = 10.0
"""The number of seconds by which a recorded time may be in the future, because the clocks of two operators may differ.
A time further in the future is replaced by the present time.
"""


class Room(msgspec.Struct, frozen=True):
    """Whether there is room for a job's pods, according to schedulers and the API server.

    A probe is a pod that tests whether there is room for another worker.
    """

    lacking: int = 0
    """The number of workers without room, plus 1 for a chief without room that can get the room of a worker."""

    why: str = ""
    """The first known reason why one of these replicas has no room."""

    is_placed: bool = False
    """Whether each worker and a chief have a node, or have ended."""

    is_complete: bool = False
    """Whether all workers and a chief run now."""

    found: int = 0
    """The number of probes that have a node."""

    is_answered: bool = False
    """Whether a scheduler has answered each probe, or the probe has waited long enough."""


class Allowed(msgspec.Struct, frozen=True):
    """The numbers of workers that a job's spec and the job's queue allow. Without a queue, they are equal."""

    wanted: int
    """The number in the spec."""

    admitted: int
    """The number that the queue has admitted, at most `wanted`."""

    quota: int
    """The number of workers for which the job has quota now. The job does not grow beyond this number."""


class Size(msgspec.Struct, frozen=True):
    """The number of workers of an elastic job."""

    workers: int
    """The number from now on."""

    before: int
    """The number until now."""

    wanted: int
    """The number in the spec."""

    least: int
    """The least number with which the job trains."""

    record: ElasticStatus
    """The state that the status must record."""

    probes: int = 0
    """The number of additional workers for which the operator tests with probes (pods) whether there is room."""

    look_again: float | None = None
    """The number of seconds after which the number may change without an event; None if it can't."""

    is_new: bool = False
    """Whether the status has recorded no number yet."""

    kept: frozenset[str] = frozenset()
    """The UIDs of the probes that are not deleted."""

    has_pods: bool = False
    """Whether pods of the earlier number exist. A change of the number restarts these pods."""

    @property
    def changes(self) -> bool:
        """Whether the number changes now."""
        return self.workers != self.before

    @property
    def change(self) -> str:
        """A text about the change in this plan: the old number, the new number, and why; empty without a change."""
        if not self.changes:
            return ""
        return f"from {self.before} to {_counted(self.workers)}, because {self.record.reason}"


def decide(
    policy: ElasticPolicy, recorded: ElasticStatus | None, allowed: Allowed, room: Room | None, now: datetime
) -> Size:
    """Return the number of workers that the job has from now on.

    `recorded` is the state in the status; if it is None or has 0 workers, the job starts with the admitted workers.
    `room` is None while pods are being deleted or restarted.
    """
    wanted, admitted = allowed.wanted, allowed.admitted
    record, before = _record(recorded, allowed, now), _before(recorded, admitted)
    size = Size(before, before, wanted, min(policy.least, admitted), record, is_new=recorded is None)
    if recorded is not None and recorded.workers <= 0 and before != admitted:
        return _changed(size, admitted, _why_admitted(allowed, is_scaled=wanted != recorded.wanted), now)
    if room is None:
        return size
    if admitted < before:
        return _changed(size, admitted, _why_admitted(allowed, is_scaled=True), now)
    if before < size.least:
        return _changed(size, size.least, f"minReplicas is {policy.least}", now)
    if room.lacking:
        return _lacking(policy, size, room, now)
    if room.is_placed and record.lacking_since is not None:
        size = msgspec.structs.replace(size, record=msgspec.structs.replace(record, lacking_since=None))
    most = min(admitted, allowed.quota)
    return _growing(policy, size, room, most, now) if room.is_complete and before < most else size


def _before(recorded: ElasticStatus | None, admitted: int) -> int:
    """Return the number of workers that the job has, or had until its queue stopped it; else the admitted number."""
    if recorded is None:
        return admitted
    number = recorded.workers if recorded.workers > 0 else recorded.workers_before
    return number if number > 0 else admitted


def _record(recorded: ElasticStatus | None, allowed: Allowed, now: datetime) -> ElasticStatus:
    """Return the state from which the plan continues.

    For a job that starts now, this is a new state. For any other job, it is the recorded state, in which times in the
    future are replaced by `now`.
    """
    wanted, admitted = allowed.wanted, allowed.admitted
    if recorded is None:
        return ElasticStatus(admitted, wanted, whole_second(now))
    if recorded.workers <= 0:
        changes = min(max(recorded.changes, 0), MAX_CHANGES)
        return ElasticStatus(admitted, wanted, whole_second(now), changes=changes, resizes=recorded.resizes)
    # The record follows each reduction. So if a user later raises the number again, `_growing` sees a new request for
    # more workers.
    asked = min(recorded.wanted, wanted)
    since, lacking = _past(recorded.since, now), recorded.lacking_since and _past(recorded.lacking_since, now)
    return msgspec.structs.replace(recorded, wanted=asked, since=since, lacking_since=lacking)


def _past(moment: datetime | None, now: datetime) -> datetime:
    """Return a recorded time; return `now` if the time is unknown, or is in the future because a clock was wrong."""
    return whole_second(now) if moment is None or seconds_between(moment, now) < -_SKEW else moment


def _why_admitted(allowed: Allowed, *, is_scaled: bool) -> str:
    """Return the reason of a change to the admitted number; `is_scaled`: a user has changed the number in the spec."""
    if allowed.admitted == allowed.wanted and is_scaled:
        return f"the number of workers was set to {allowed.wanted}"
    return f"Kueue admitted {allowed.admitted} of the {allowed.wanted} requested workers"


def _lacking(policy: ElasticPolicy, size: Size, room: Room, now: datetime) -> Size:
    since = size.record.lacking_since or whole_second(now)
    size = msgspec.structs.replace(size, record=msgspec.structs.replace(size.record, lacking_since=since))
    target = max(size.least, size.before - room.lacking)
    if target >= size.before:
        return size
    left = policy.shrink_after - seconds_between(since, now)
    if left > 0:
        return msgspec.structs.replace(size, look_again=left)
    lack = "1 replica has" if room.lacking == 1 else f"{room.lacking} replicas have"
    why = f"{lack} had no node for {policy.shrink_after} seconds"
    return _changed(size, target, f"{why} ({room.why})" if room.why else why, now)


def _growing(policy: ElasticPolicy, size: Size, room: Room, most: int, now: datetime) -> Size:
    is_asked = size.wanted > size.record.wanted
    due = 0.0 if is_asked else policy.grow_after - seconds_between(size.record.since or now, now)
    if due > 0:
        return msgspec.structs.replace(size, look_again=due)
    if room.found and room.is_answered:
        workers = min(size.before + room.found, most)
        return _changed(size, workers, f"there are nodes for {workers - size.before} more workers", now)
    return msgspec.structs.replace(size, probes=most - size.before)


def _changed(size: Size, workers: int, reason: str, now: datetime) -> Size:
    changes = min(size.record.changes + 1, MAX_CHANGES)
    record = ElasticStatus(workers, size.wanted, whole_second(now), reason, None, changes, size.record.resizes)
    return msgspec.structs.replace(size, workers=workers, record=record)


def _counted(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"
