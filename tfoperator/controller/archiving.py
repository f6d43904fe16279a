"""Logs before deletions: what the controller asks of an archive, and what is left of a plan while that works. Pure.

A pod that has to wait is left out of this plan; the next sync finds it still to be deleted, because a sync acts on the
whole observed state. So nobody waits for a log while holding a worker thread, and a crash in between forgets nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Protocol

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.actions import DeleteReason, Plan
from tfoperator.kube.objects import Pod

__all__ = ["PodArchive", "doomed", "postpone"]


class PodArchive(Protocol):
    """Keeps the logs of pods: `tfoperator.archive.LogArchive`."""

    timeout: float
    """Seconds that a deletion waits at most."""

    def prepare(self, job: TFJob, pods: Sequence[Pod], done: Callable[[], object]) -> frozenset[str]:
        """The UIDs of those pods that have to wait; `done` is called when it is worth asking again. Never blocks."""
        ...


def doomed(plan: Plan, pods: Sequence[Pod]) -> list[Pod]:
    """The pods that the plan would take from the cluster, and whose logs can still be read.

    Deleting a job takes all of its pods. A lost node doesn't answer, and one that is gone has its pods' logs.
    """
    if plan.delete_job:
        return list(pods)
    uids = {one.uid for one in plan.delete_pods if one.reason is not DeleteReason.NODE_LOST}
    return [pod for pod in pods if pod.metadata.uid in uids] if uids else []


def postpone(plan: Plan, job: TFJob, waiting: Set[str], seconds: float) -> Plan:
    """The plan without the deletion of those pods, to be made anew after `seconds` if nobody calls before."""
    later = seconds if plan.requeue_after is None else min(plan.requeue_after, seconds)
    if plan.delete_job:
        return Plan(status=job.status, requeue_after=later)
    kept = tuple(one for one in plan.delete_pods if one.uid not in waiting)
    return msgspec.structs.replace(plan, delete_pods=kept, requeue_after=later)
