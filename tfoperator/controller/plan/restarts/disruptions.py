"""Delays the restart of replicas whose pods are evicted or deleted again and again: the delay grows each time.

A disruption takes a pod from its job, for example by an eviction. After a replica's first disruption, its new pod is
created at once. If another disruption follows soon, the next delay is `restart_delay_base`, then twice that, and so on
up to `restart_delay_cap`. Without a delay, the cause of the disruptions (a program that deletes pods, a kubelet that
refuses them) and the operator would keep each other busy for ever. Disruptions that follow soon after one another are
a row. The row ends when the new pod of a replica has stayed for a minute, and for at least the last delay.

`status.disruptionBackoff` records the row of disruptions. This record is written together with the count of the
disruption, so each disruption is in the row exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from tfoperator.api.replicas.names import MAX_RESTARTS
from tfoperator.api.v1.disruptions import DisruptionBackoff
from tfoperator.api.v1.status import format_indexes, parse_indexes
from tfoperator.base.clock import seconds_between, utc, whole_second
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.pod_ends.restart import restart_delay
from tfoperator.controller.plan.replicas.replicas import GONE, Replica, ReplicaGroup, ReplicaState
from tfoperator.controller.plan.values.observed import PlanOptions

MIN_QUIET = 60.0
"""If a new pod of a replica has stayed for this number of seconds, the replica's next disruption begins a new row."""

_WAITING_STATES = (ReplicaState.MISSING, ReplicaState.VANISHED)
_Indexes = Mapping[str, frozenset[int]]


def with_delays(facts: Facts) -> Facts:
    """Return the facts with the row of disruptions, and with a delay for the next pods of the disrupted replicas.

    A row is a series of disruptions that followed soon after one another. A pod that a disruption has ended stays until
    the delay is over, so its log can be read. The next pod has the same name, so it can't be created before the old pod
    is deleted.
    """
    options = facts.options
    backoff = _next(facts, facts.job.status.disruption_backoff)
    facts = msgspec.structs.replace(facts, backoff=backoff)
    if backoff is None:
        return facts
    # In a restart of all replicas, each replica waits until the old pods are gone, so GONE is not the cause.
    gone = "" if facts.restart.old else GONE
    facts = _in_row(facts, backoff, partial(_gone, gone))
    delay = _delay(backoff, options)
    left = 0.0 if backoff.since is None else delay - seconds_between(backoff.since, facts.now)
    # If `backoff.since` is in the future, a wall clock was set back. Then the replicas do not wait.
    if backoff.since is None or not 0 < left <= 2 * delay:
        return facts
    facts = _in_row(facts, backoff, partial(_held, _after(backoff.since, math.ceil(delay)), left))
    held = any(
        replica.held_until is not None and replica.state in _WAITING_STATES
        for group in facts.groups
        for replica in group.replicas
    )
    return msgspec.structs.replace(facts, held=left) if held else facts


def _in_row(facts: Facts, row: DisruptionBackoff, change: Callable[[Replica], Replica]) -> Facts:
    """Return the facts in which `change` was applied to each replica that the row of disruptions names."""
    by_type = _indexes(row)
    groups = tuple(
        group.with_replicas(
            tuple(change(replica) if replica.index in by_type[group.type] else replica for replica in group.replicas)
        )
        if group.type in by_type
        else group
        for group in facts.groups
    )
    return msgspec.structs.replace(facts, groups=groups)


def _gone(cause: str, replica: Replica) -> Replica:
    """Return the replica with `cause` as the cause of its restart, if the replica has no pod.

    The replica counts as restarting until its new pod exists.
    """
    return msgspec.structs.replace(replica, cause=cause) if replica.state in _WAITING_STATES else replica


def _held(until: datetime, left: float, replica: Replica) -> Replica:
    """Return the replica with its restart delayed until `until` (for `left` seconds), if a disruption took its pod."""
    if replica.state in _WAITING_STATES:
        return msgspec.structs.replace(replica, held_until=until)
    if replica.wait is not None and replica.disruption:
        return msgspec.structs.replace(replica, held_until=until, wait=left)
    return replica


def _after(since: datetime, seconds: int) -> datetime:
    """Return the time that is `seconds` later, or the latest possible time."""
    try:
        return utc(since) + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _next(facts: Facts, before: DisruptionBackoff | None) -> DisruptionBackoff | None:
    """Return the record of the row of disruptions after this plan, including new disruptions."""
    new = _new_disruptions(facts)
    if not new:
        return before
    options, now = facts.options, facts.now
    row = _indexes(before)
    again = before is not None and any(
        replica.index in row.get(group.type, ()) and not _stayed(replica, before, now, options)
        for group, replica in new
    )
    taken: dict[str, set[int]] = {}
    for group, replica in new:
        taken.setdefault(str(group.type), set()).add(replica.index)
    # `since` is at least the time of each deletion by the API server's clock. Otherwise `_went_after` would take such a
    # deletion for a new disruption in the next plan.
    deletions = [utc(time) for _, replica in new if replica.lost_early and (time := _requested_earliest(replica))]
    since = max([whole_second(now), *deletions])
    if before is not None and again:
        return _backoff(before.count + 1, since, taken)
    if before is not None and before.since is not None and _is_recent(before, now, options):
        # Other replicas have their first disruption, for example because the next node of the cluster is drained. They
        # join the row, and its delay stays the same.
        joined = {kind: row.get(kind, frozenset()) | taken.get(kind, set()) for kind in {*row, *taken}}
        return _backoff(before.count, max([utc(before.since), *deletions]), joined)
    return _backoff(1, since, taken)


def _new_disruptions(facts: Facts) -> Sequence[tuple[ReplicaGroup, Replica]]:
    """Return the replicas that are disrupted now.

    If all replicas restart together because of a disruption, return all of them.
    """
    if facts.restart.causes:
        everyone = facts.restart.is_disruption
        return [(group, replica) for group in facts.groups for replica in group.replicas] if everyone else []
    row = facts.job.status.disruption_backoff
    since = None if row is None else row.since
    return [
        (group, replica)
        for group in facts.groups
        for replica in group.replicas
        if replica.is_newly_disrupted or (replica.lost_early and _went_after(replica, since))
    ]


def _went_after(replica: Replica, since: datetime | None) -> bool:
    """Return whether a pod's deletion was requested after `since`, the time of the last disruption in the row.

    An earlier deletion is already in the row of disruptions.
    """
    earliest = _requested_earliest(replica)
    return earliest is not None and (since is None or seconds_between(since, earliest) > 0)


def _requested_earliest(replica: Replica) -> datetime | None:
    """Return the earliest time at which the deletion of a pod may have been requested.

    If the time of the request is uncertain, this is the time of the pod's creation. A pod without a node has the grace
    period 0 from the first request on, so the time of the request is certain.
    """
    if replica.pod is None:
        return None
    meta = replica.pod.metadata
    requested = meta.certain_deletion if replica.pod.spec.node_name else meta.deletion_requested
    return requested or meta.creation_timestamp


def _requested(replica: Replica) -> datetime | None:
    """Return the latest time at which the deletion of a pod may have been requested."""
    return None if replica.pod is None else replica.pod.metadata.deletion_requested


def _stayed(replica: Replica, row: DisruptionBackoff, now: datetime, options: PlanOptions) -> bool:
    """Return whether the new pod of a replica has stayed long enough to end the row of disruptions."""
    created = None if replica.pod is None else replica.pod.metadata.creation_timestamp
    if created is None:
        return not _is_recent(row, now, options)
    return seconds_between(created, _requested(replica) or now) >= _quiet(row, options)


def _is_recent(row: DisruptionBackoff, now: datetime, options: PlanOptions) -> bool:
    """Return whether the last disruption is so recent that the next disruption may continue the row."""
    return row.since is not None and seconds_between(row.since, now) < _delay(row, options) + _quiet(row, options)


def _delay(row: DisruptionBackoff, options: PlanOptions) -> float:
    """Return the number of seconds between the last disruption of a row and the creation of the new pods."""
    return 0.0 if row.count <= 1 else restart_delay(row.count - 1, options)


def _quiet(row: DisruptionBackoff, options: PlanOptions) -> float:
    return max(MIN_QUIET, _delay(row, options))


def _indexes(row: DisruptionBackoff | None) -> _Indexes:
    return {} if row is None else {kind: parse_indexes(text) for kind, text in row.replicas.items()}


def _backoff(count: int, since: datetime, taken: Mapping[str, set[int] | frozenset[int]]) -> DisruptionBackoff:
    replicas = {kind: format_indexes(indexes) for kind, indexes in sorted(taken.items())}
    return DisruptionBackoff(min(max(count, 1), MAX_RESTARTS), since, replicas)
