"""When stacks of a job's threads are taken before its end or its restart, and how long that waits for them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import msgspec

from tfoperator.controller.plan.observed import Observed
from tfoperator.controller.plan.replicas import ReplicaGroup, ReplicaState
from tfoperator.controller.plan.times import whole_second
from tfoperator.kube.objects import Pod

STACKS_TIMEOUT = 30.0
"""Seconds that the end of a job, or of a stall, waits for stacks: a process that is stopped answers no signal."""


class LastStacks(msgspec.Struct, frozen=True):
    """The pods whose stacks are to be taken before the job ends, and how many seconds are left for that."""

    pods: tuple[Pod, ...]
    left: float


def pods_to_look_into(groups: Sequence[ReplicaGroup], behind: Collection[str] = ()) -> tuple[Pod, ...]:
    """The pods of all replicas, those that are behind first: not all may be asked."""
    named = {
        f"{group.type.lower()}-{replica.index}": replica.pod
        for group in groups
        for replica in group.replicas
        if replica.pod is not None
    }
    return tuple(named[name] for name in sorted(named, key=lambda name: name not in behind))


def stacks_before_deadline(
    groups: Sequence[ReplicaGroup], observed: Observed, deadline_left: float | None, now: datetime
) -> LastStacks | None:
    """What to wait for now that the job's time is over; None if it is not, or nothing is to be waited for.

    `deadline_left` is in seconds, as a verdict has it.
    """
    if observed.stacks_taken is None or deadline_left is None or deadline_left > 0:
        return None
    left = STACKS_TIMEOUT + deadline_left
    if left <= 0 or observed.stacks_taken >= whole_second(now + timedelta(seconds=deadline_left)):
        return None
    if not any(replica.state is ReplicaState.RUNNING for group in groups for replica in group.replicas):
        return None
    return LastStacks(pods_to_look_into(groups), left)
