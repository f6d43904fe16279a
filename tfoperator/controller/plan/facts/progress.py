"""The known progress of a job, and the pods whose thread stacks are taken before the job ends or restarts. Pure."""

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
"""The maximum number of seconds for which the end of a job, or the end of a stall, waits for the stacks of all threads.
The wait has a limit, because a stopped process (SIGSTOP) never answers the request for its stacks.
"""


class StallState(Enum):
    """The state of a job's progress."""

    NOT_WATCHED = "the job has no progressDeadlineSeconds"
    NOT_RUNNING = "a replica that the job needs does not run"
    GOES_ON = "the job has made progress within the deadline"
    STALLED = "the job has made no progress within the deadline"
    UNKNOWN = "the operator can't find out whether the job makes progress"


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """The known progress of a job, and the actions that are necessary because of it."""

    state: StallState
    message: str = ""
    """The reason why the job has stalled, or why it is unknown whether the job has stalled."""
    behind: tuple[str, ...] = ()
    """The names of the replicas that have made less progress than the others, if they are known."""
    look_again: float | None = None
    """The number of seconds until the next sync."""
    look_at: tuple[Pod, ...] = ()
    """The pods whose last log lines must be read now, pod after pod, until a line is newer than `newer_than`."""
    newer_than: datetime | None = None
    stacks_of: tuple[Pod, ...] = ()
    """The pods in which the stacks of all threads must be taken."""
    ends_as: OnStall = OnStall.REPORT
    """The action that ends the stall now; REPORT means that the stall does not end now."""


NOT_WATCHED = Stall(state=StallState.NOT_WATCHED)


def pods_to_look_into(groups: Sequence[ReplicaGroup], behind: Collection[str] = ()) -> tuple[Pod, ...]:
    """Return the pods of all replicas.

    Replicas that are behind come first, because the time may be too short to take the stacks of all pods.
    """
    named = {
        group.name_of(replica): replica.pod for group in groups for replica in group.replicas if replica.pod is not None
    }
    return tuple(named[name] for name in sorted(named, key=lambda name: name not in behind))


def left_for_stacks(
    groups: Sequence[ReplicaGroup], taken: datetime, deadline_left: float, now: datetime
) -> float | None:
    """Return for how many more seconds a job whose deadline is over waits for stacks before it ends.

    Return None if the job does not wait. `taken` is the time at which its stacks were last taken. `deadline_left` is
    `Facts.deadline_left`, which is 0 or negative here: -5.0 means that the deadline was over five seconds ago.
    """
    left = STACKS_TIMEOUT + deadline_left
    if left <= 0 or taken >= whole_second(now + timedelta(seconds=deadline_left)):
        return None
    if not any(replica.state is ReplicaState.RUNNING for group in groups for replica in group.replicas):
        return None
    return left
