"""Decides on the number of workers of an elastic job, from numbers alone. Pure.

The rules, of which the first that holds decides:

1. While pods of an earlier size are leaving, or replicas restart, the number stays.
2. A user (or an autoscaler) who has lowered the number in the spec below the current number gets it at once.
3. A policy whose least number was raised above the current number has that number at once.
4. If replicas lack room for `shrinkAfterSeconds`, the job goes on with the workers that have room, at least
   `minReplicas`. With the least number it waits.
5. If fewer workers are at work than wanted, all of them run, and the last change is `growAfterSeconds` ago, the job
   asks for room for the others. It also does so at once when a user has raised the number in the spec. When a
   scheduler has answered, the job goes on with as many workers more as there is room for.

So a job grows at most once in `growAfterSeconds`, unless a user scales it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.api.v1.elastic import MAX_CHANGES, ElasticPolicy, ElasticStatus
from tfoperator.base.clock import seconds_between, whole_second

_SKEW = 10.0
"""Seconds by which a recorded time may lie ahead: clocks of two operators differ. A later time is wrong."""


class Room(msgspec.Struct, frozen=True):
    """The room for a job's pods, as schedulers and the API server have answered.

    `lacking` is the number of replicas without room, and `why` the reason of the first. `is_placed`: each replica has a
    node, or has ended. `is_complete`: each replica runs, and none has ended. `found` is the number of probes that have
    a node, and `is_answered` whether each probe has an answer.
    """

    lacking: int = 0
    why: str = ""
    is_placed: bool = False
    is_complete: bool = False
    found: int = 0
    is_answered: bool = False


class Size(msgspec.Struct, frozen=True):
    """The number of workers of an elastic job: `workers`, after it was `before`.

    `record` is what the status is to record. `probes` is the number of further workers for which room is asked.
    `is_new`: the status has recorded no number yet. `kept` are the UIDs of the probes that stay. `has_pods`: pods of
    the earlier number exist, so a change restarts them. `least` is the least number of workers.
    """

    workers: int
    before: int
    wanted: int
    least: int
    record: ElasticStatus
    probes: int = 0
    look_again: float | None = None
    is_new: bool = False
    kept: frozenset[str] = frozenset()
    has_pods: bool = False

    @property
    def changes(self) -> bool:
        """Whether the number changes now."""
        return self.workers != self.before

    @property
    def change(self) -> str:
        """The change of now for people: from how many to how many, and why; empty if the number stays."""
        if not self.changes:
            return ""
        return f"from {self.before} to {_counted(self.workers)}, because {self.record.reason}"


def decide(
    policy: ElasticPolicy, recorded: ElasticStatus | None, wanted: int, room: Room | None, limit: int, now: datetime
) -> Size:
    """Return the number of workers from now on.

    `recorded` is the state that the status has; with 0 workers, or without it, the job starts with `wanted` workers.
    `room` is None while pods leave or restart. The job asks for no more than `limit` workers, which is its quota.
    """
    record, before = _record(recorded, wanted, now), wanted
    if recorded is not None and recorded.workers > 0:
        before = recorded.workers
    size = Size(before, before, wanted, min(policy.least, wanted), record, is_new=recorded is None)
    if room is None:
        return size
    if wanted < before:
        return _changed(size, wanted, f"the number of workers was set to {wanted}", now)
    if before < size.least:
        return _changed(size, size.least, f"minReplicas is {policy.least}", now)
    if room.lacking:
        return _lacking(policy, size, room, now)
    if room.is_placed and record.lacking_since is not None:
        size = msgspec.structs.replace(size, record=msgspec.structs.replace(record, lacking_since=None))
    most = min(wanted, limit)
    return _growing(policy, size, room, most, now) if room.is_complete and before < most else size


def _record(recorded: ElasticStatus | None, wanted: int, now: datetime) -> ElasticStatus:
    """Return the state to go on from: of a job that starts now, or without times that lie ahead."""
    if recorded is None:
        return ElasticStatus(wanted, wanted, whole_second(now))
    if recorded.workers <= 0:
        changes = min(max(recorded.changes, 0), MAX_CHANGES)
        return ElasticStatus(wanted, wanted, whole_second(now), changes=changes, resizes=recorded.resizes)
    # A user who lowers the number and raises it again asks for more workers once more.
    asked = min(recorded.wanted, wanted)
    since, lacking = _past(recorded.since, now), recorded.lacking_since and _past(recorded.lacking_since, now)
    return msgspec.structs.replace(recorded, wanted=asked, since=since, lacking_since=lacking)


def _past(moment: datetime | None, now: datetime) -> datetime:
    """Return a recorded time; now if it is unknown, or lies ahead because a clock was wrong."""
    return whole_second(now) if moment is None or seconds_between(moment, now) < -_SKEW else moment


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
        return _changed(size, workers, f"there are nodes for {workers - size.before} more", now)
    return msgspec.structs.replace(size, probes=most - size.before)


def _changed(size: Size, workers: int, reason: str, now: datetime) -> Size:
    changes = min(size.record.changes + 1, MAX_CHANGES)
    record = ElasticStatus(workers, size.wanted, whole_second(now), reason, None, changes, size.record.resizes)
    return msgspec.structs.replace(size, workers=workers, record=record)


def _counted(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"
