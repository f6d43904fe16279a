"""Decides whether a program ended by itself, or because its pod was interrupted.

If a program gets SIGTERM, it may save its state and exit with 0. A program that has completed its work exits with 0,
too, and the kubelet reports the same exit code, reason and phase. So only times show that a program ended by itself:
the program ended before every order to end. An order to end is, for example, the deletion of the pod. The functions are
pure.

Kubernetes cuts its times to whole seconds. If two times are equal, their order is unknown. So a program that ended in
the same second as the order counts as interrupted. If this is wrong, the only effect is that the step runs again. The
opposite mistake would pass an incomplete output to the next steps and to the cache.

The time of the program's end comes from the node's clock, and the time of a deletion from the API server's clock. If
the node's clock is ahead, the end looks later than it was, and the step may run again without need. If the node's clock
is behind, an end after the order could look like an end before the order. So the comparison subtracts the lag of the
node's clock, if the pod's status shows it (`visible_lag`). A lag of less than a second is not visible. It leads to a
mistake only if the program ends within this time after the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tfoperator.base.clock import seconds_between


class Interruption(msgspec.Struct, frozen=True):
    """An order to the containers of a pod to end, such as a deletion or an eviction of the pod.

    `at` is the time of the order in whole seconds, or None if the pod's status does not contain the time. `by_limit`
    means that the pod's `activeDeadlineSeconds` caused the order. Another attempt would also reach this limit. Without
    `by_limit`, the platform or a person ended the pod.
    """

    message: str
    at: datetime | None = None
    by_limit: bool = False


def interrupted_by(
    ended: datetime | None, interruptions: Iterable[Interruption], lag: float = 0.0
) -> Interruption | None:
    """Return the first of the interruptions, in the given order, that may have ended the program.

    Return None if the program certainly ended before all interruptions. `ended` is the time of the program's end in
    whole seconds, by the node's clock, or None if the time is unknown. `lag` is the result of `visible_lag`, in
    seconds.
    """
    for interruption in interruptions:
        if ended is None or interruption.at is None or seconds_between(ended, interruption.at) <= lag:
            return interruption
    return None


def visible_lag(bound: datetime | None, accepted: datetime | None) -> float:
    """Return the number of seconds by which a node's clock may be behind the API server's; 0 if the pod shows no lag.

    `bound` is the time at which the API server bound the pod to its node. `accepted` is the time at which the kubelet
    first saw the pod, by the node's clock. A kubelet sees a pod only after the binding. So if `accepted` is earlier,
    the node's clock is behind. Both times are cut to whole seconds, so the result is one second more than their
    difference.
    """
    if bound is None or accepted is None:
        return 0.0
    earlier = seconds_between(accepted, bound)
    return earlier + 1.0 if earlier > 0 else 0.0


def limit_reached(accepted: datetime | None, limit: int | None) -> datetime | None:
    """Return the earliest time at which the kubelet may have ended a pod because of its `activeDeadlineSeconds`.

    `limit` is the value of `activeDeadlineSeconds`. `accepted` is the time at which the kubelet first saw the pod.
    Return None if `limit` or `accepted` is None, or if the time is out of the range of dates.
    """
    try:
        return None if accepted is None or limit is None else accepted + timedelta(seconds=limit)
    except OverflowError:
        return None
