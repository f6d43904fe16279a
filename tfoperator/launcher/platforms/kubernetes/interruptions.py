"""Decides whether a program ended by itself, or because its pod was interrupted.

The functions are pure, and compare times. If a program gets the order to end (SIGTERM), it may save its state and exit
with 0. So this exit code does not show whether its work is complete. The kubelet reports the same for both cases: the
same exit code, reason and phase. So only times can show that a program ended by itself: the program ended before every
order to end.

Kubernetes cuts its times to whole seconds. If two times come from the same clock, the smaller time is earlier. If they
are equal, their order is unknown. So if a program ended in the same second as the order, it counts as interrupted. If
this is wrong, the step only runs once more. The opposite mistake would pass an incomplete output to the next steps and
to the cache.

The time of the end comes from the node's clock. The time of a deletion comes from the API server's clock. If the node's
clock is ahead, the end looks later than it was, so the step may be repeated without need. If the node's clock is
behind, an end after the order looks earlier than it was. So the comparison allows for the lag of the clock that the pod
itself shows (`visible_lag`). A lag of less than a second is not visible. It matters only if the program ends within
that time after the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tfoperator.base.clock import seconds_between


class Interruption(msgspec.Struct, frozen=True):
    """An order to the containers of a pod to end.

    `at` is the time of the order in whole seconds. It is None if the pod does not show it. `by_limit` means that the
    pod's own time limit caused the order, so another attempt would end in the same manner. Otherwise the platform or a
    person removed the pod.
    """

    message: str
    at: datetime | None = None
    by_limit: bool = False


def interrupted_by(
    ended: datetime | None, interruptions: Iterable[Interruption], lag: float = 0.0
) -> Interruption | None:
    """Return the first interruption that may have ended the program.

    Return None if the program certainly ended before all interruptions. `ended` is the time of the program's end in
    whole seconds, by the node's clock. It is None if it is unknown. `lag` is the number of seconds by which the node's
    clock may be behind (`visible_lag`).
    """
    for one in interruptions:
        if ended is None or one.at is None or seconds_between(ended, one.at) <= lag:
            return one
    return None


def visible_lag(bound: datetime | None, accepted: datetime | None) -> float:
    """Return the number of seconds by which a node's clock may be behind the API server's; 0 if the pod shows no lag.

    `bound` is the time at which the API server bound the pod to its node. `accepted` is the time at which the kubelet
    first saw the pod. Both are in whole seconds. Normally the kubelet sees a pod within milliseconds. So if the
    kubelet's time is earlier than the time of the binding, its clock is behind. The cut to whole seconds may hide one
    more second.
    """
    if bound is None or accepted is None:
        return 0.0
    earlier = seconds_between(accepted, bound)
    return earlier + 1.0 if earlier > 0 else 0.0


def limit_reached(accepted: datetime | None, limit: int | None) -> datetime | None:
    """Return the earliest time at which the kubelet may have ended a pod because of its time limit.

    Return None if it is unknown. `accepted` is the time at which the kubelet first saw the pod. `limit` is the pod's
    `activeDeadlineSeconds`.
    """
    try:
        return None if accepted is None or limit is None else accepted + timedelta(seconds=limit)
    except OverflowError:
        return None
