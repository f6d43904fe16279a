"""Decides whether a program ended by itself, or because its pod was interrupted: pure functions of times.

A program that is ordered to end (by SIGTERM) may save its state and exit with 0: this exit code does not show whether
its work is done. The kubelet reports both ends alike, with the same exit code, reason and phase. So only times can show
that an end is the program's own: it came before every order.

Kubernetes cuts its times to whole seconds. Of two times of one clock, the smaller time is the earlier; two equal times
may have had either order. So a program that ended in the second of the order counts as interrupted. Such a mistake
costs another run of the step; the opposite mistake would hand half of an output to the next steps and to the cache.

The end has the time of the node's clock, a deletion has the time of the API server's clock. If the node's clock is
ahead, an end looks later than it was: the step may be repeated without need. If the node's clock is behind, an end that
followed the order looks earlier than it was. So the end is compared with a margin, the lag that the pod itself shows
(`visible_lag`). A lag of less than a second is not visible, and matters only if the program answers within that time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tfoperator.base.clock import seconds_between


class Interruption(msgspec.Struct, frozen=True):
    """An order to a pod's containers to end.

    `at` is its time in whole seconds, None if the pod does not have it. `by_limit`: it came from the pod's own time
    limit, so that another try would end the same way; otherwise the platform or a person took the pod away.
    """

    message: str
    at: datetime | None = None
    by_limit: bool = False


def interrupted_by(
    ended: datetime | None, interruptions: Iterable[Interruption], lag: float = 0.0
) -> Interruption | None:
    """Return the first interruption that may have ended the program; None if it certainly ended before all of them.

    `ended` is the program's end in whole seconds by the node's clock, None if it is unknown. `lag` is the number of
    seconds by which that clock may be behind (`visible_lag`).
    """
    for one in interruptions:
        if ended is None or one.at is None or seconds_between(ended, one.at) <= lag:
            return one
    return None


def visible_lag(bound: datetime | None, accepted: datetime | None) -> float:
    """Return the number of seconds by which a node's clock may be behind the API server's; 0 if the pod shows no lag.

    `bound` is the time at which the API server bound the pod to its node, and `accepted` the time at which the kubelet
    first saw the pod, both in whole seconds. The kubelet needs milliseconds to see it. So an earlier time of the
    kubelet shows that its clock is behind; the fractions that were cut off may hide one second more.
    """
    if bound is None or accepted is None:
        return 0.0
    earlier = seconds_between(accepted, bound)
    return earlier + 1.0 if earlier > 0 else 0.0


def limit_reached(accepted: datetime | None, limit: int | None) -> datetime | None:
    """Return the earliest time at which the kubelet may have ended a pod for its limit; None if it is unknown.

    `accepted` is the time at which the kubelet first saw the pod, `limit` the pod's `activeDeadlineSeconds`.
    """
    try:
        return None if accepted is None or limit is None else accepted + timedelta(seconds=limit)
    except OverflowError:
        return None
