"""The known progress of a job, and the pods whose stacks are taken before its end or its restart. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from tfoperator.api.v1.choices import OnStall
from tfoperator.base.clock import whole_second
from tfoperator.controller.plan.replicas.replicas import ReplicaGroup, ReplicaState
from tfoperator.kube.views.objects import Pod

STACKS_TIMEOUT = 30.0
"""Seconds that the end of a job, or of a stall, waits for stacks: a process that is stopped answers no signal."""


class StallState(Enum):
    """The state of a job's progress."""

    NOT_WATCHED = "the job has no progressDeadlineSeconds"
    NOT_RUNNING = "a replica that the job needs does not run"
    GOES_ON = "the job has made progress within the deadline"
    STALLED = "there is none"
    UNKNOWN = "nobody can tell"


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """The known progress of a job, and the actions that follow.

    `message` is the reason why it has stalled, or why that is unknown. `behind` are replicas by name. `look_again` is
    in seconds; `look_at` are pods whose last lines are to be read now, until a line is newer than `newer_than`.
    `stacks_of` are pods whose stacks are to be taken. `ends_as` is the action on the stall now.
    """

    state: StallState
    message: str = ""
    behind: tuple[str, ...] = ()
    look_again: float | None = None
    look_at: tuple[Pod, ...] = ()
    newer_than: datetime | None = None
    stacks_of: tuple[Pod, ...] = ()
    ends_as: OnStall = OnStall.REPORT


NOT_WATCHED = Stall(state=StallState.NOT_WATCHED)


def pods_to_look_into(groups: Sequence[ReplicaGroup], behind: Collection[str] = ()) -> tuple[Pod, ...]:
    """Return the pods of all replicas; replicas that are behind come first, since a look may not reach all pods."""
    named = {
        group.name_of(replica): replica.pod for group in groups for replica in group.replicas if replica.pod is not None
    }
    return tuple(named[name] for name in sorted(named, key=lambda name: name not in behind))


def left_for_stacks(
    groups: Sequence[ReplicaGroup], taken: datetime, deadline_left: float, now: datetime
) -> float | None:
    """Return for how many seconds a job awaits stacks whose deadline was `-deadline_left` seconds ago, or None.

    Stacks were `taken` last at that time.
    """
    left = STACKS_TIMEOUT + deadline_left
    if left <= 0 or taken >= whole_second(now + timedelta(seconds=deadline_left)):
        return None
    if not any(replica.state is ReplicaState.RUNNING for group in groups for replica in group.replicas):
        return None
    return left
