"""What a gang waits for, said once for all its pods, in words that stay the same while the reason does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tfoperator.controller.plan.replicas import Replica, ReplicaGroup, ReplicaState
from tfoperator.controller.plan.status.scheduling import unschedulable_reasons
from tfoperator.controller.pods import PodGroup, PodGroupSpec

_MAX_REASONS = 3
_MAX_LENGTH = 240


def not_admitted(name: str, wanted: PodGroupSpec, current: PodGroup | None) -> str:
    """The scheduler has not let PodGroup `name` in, so it may have no pods yet."""
    gang = _gang(wanted)
    if current is None or not current.status.phase:
        return f"{gang} waits for Volcano to look at PodGroup {name}"
    queue = current.spec.queue or wanted.queue
    where = f" to queue {queue}" if queue else ""
    unschedulable = (one.message for one in current.status.conditions if one.type == "Unschedulable")
    return _with_reasons(f"{gang} waits until Volcano admits PodGroup {name}{where}", unschedulable)


def not_scheduled(wanted: PodGroupSpec, groups: Sequence[ReplicaGroup], known: str) -> str | None:
    """Too few of the gang's pods have a node, and why; "" if no scheduler has said yet, None if enough have one.

    `known` is what the job's condition says. A scheduler that tries again may say nothing for a moment but that it
    tried; the reason that it gave before stands until it gives another.
    """
    replicas = [replica for group in groups for replica in group.replicas]
    placed = sum(1 for replica in replicas if _is_placed(replica))
    if placed >= wanted.min_member:
        return None
    refusals = [message for replica in replicas if (message := _refusal(replica)) is not None]
    if not refusals:
        return ""
    gang = _gang(wanted)
    if wanted.min_member > len(replicas):
        return f"{gang} can't come together: the job has only {len(replicas)} replicas (schedulingPolicy.minAvailable)"
    waits = f"{gang} waits for room"
    said = _with_reasons(waits, refusals)
    if said != waits:
        return said
    before = re.search(re.escape(waits) + ": [^;]*", known)
    return before[0].rstrip(".") if before is not None else ""


def _is_placed(replica: Replica) -> bool:
    return replica.state is ReplicaState.SUCCEEDED or (replica.pod is not None and bool(replica.pod.spec.node_name))


def _refusal(replica: Replica) -> str | None:
    """What the scheduler says about a pod that it has no node for."""
    if replica.pod is None or _is_placed(replica):
        return None
    for condition in replica.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return None


def _gang(wanted: PodGroupSpec) -> str:
    asks = ", ".join(f"{name} {amount}" for name, amount in sorted(wanted.min_resources.items()))
    pods = "1 pod" if wanted.min_member == 1 else f"{wanted.min_member} pods"
    return f"the gang of {pods}{f' ({asks})' if asks else ''}"


def _with_reasons(text: str, messages: Iterable[str]) -> str:
    reasons = sorted({reason for message in messages for reason in unschedulable_reasons(message)})[:_MAX_REASONS]
    if not reasons:
        return text
    # A semicolon ends what is said about the gang in the condition.
    why = " ".join(", ".join(reasons).replace(";", ",").split())
    return f"{text}: {why if len(why) <= _MAX_LENGTH else why[: _MAX_LENGTH - 3] + '...'}"
