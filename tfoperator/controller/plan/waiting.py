"""The reasons why replicas wait that don't run yet, with texts that change only with the reason.

The messages of the kubelet and the scheduler change with every attempt: back-off times, node counts, the two reasons of
a failing image pull. Copied into a condition, each change would be a status write, so only the text that a person needs
is kept. A scheduler's message counts the nodes to which each reason applies. Those of gang schedulers also name pods
and count the gang's members, and most only say that another pod of the gang had no room, which is no news.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tfoperator.api.names import DEFAULT_CONTAINER_NAME
from tfoperator.controller.plan.replicas import Replica, ReplicaGroup, ReplicaState
from tfoperator.kube.objects import ContainerStatus, Pod

_STARTING_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of every starting container, which are not reported."""

_CANONICAL_REASONS = {"ErrImagePull": "ImagePullBackOff", "RunContainerError": "CrashLoopBackOff"}
"""Reasons that alternate with a back-off while nothing changes."""

_REASONS_WITH_MESSAGE = frozenset({"CreateContainerConfigError", "CreateContainerError", "InvalidImageName"})
"""Reasons whose message names the cause (a missing secret, a bad name) and stays the same at every attempt."""

_STATES_WITHOUT_POD = (ReplicaState.MISSING, ReplicaState.VANISHED)
_MAX_MESSAGE = 160
_MAX_REASONS = 3
_MAX_NAMES = 3

_PREEMPTION = re.compile(r"\.?\s*preemption:.*", re.DOTALL)
_NODES_AVAILABLE = re.compile(r"^\d+/\d+ nodes are (?:un)?available: ")
_LEADING_COUNT = re.compile(r"^\d+ ")

_ORIGIN_PREFIX = re.compile(r".*Origin reason is\s*(?:\S+)?: ", re.DOTALL)
"""Volcano's prefix of the message about one pod, after its summary of the gang."""

_RESOURCE_GAP = re.compile(r"resource gap: map\[(.*?)\](?:\.|$)", re.DOTALL)
_RESOURCE = re.compile(r"([\w./-]+):\{")
"""The coscheduling plugin prints Go's structs: `resource gap: map[cpu:{{5000 -3} {<nil>}  DecimalSI}]`."""

_GANG_ECHO = re.compile(
    r"pod group is not ready|tasks in gang unschedulable|can possibly be assigned|all nodes are unavailable$"  # Volcano
    r"|cannot find enough sibling pods|failed recently|optimistic rejection|gets rejected due to|PodGroup not found"
    r"|rejected due to timeout|rejection in Unreserve"
    r"|minCount|pod group is unschedulable"  # Kubernetes' own scheduler
)
"""Messages which say that something other than this pod keeps the gang waiting."""


def waiting_reason(replica: Replica, *, in_gang: bool) -> str:
    """Return why this replica does not run, or "" if it runs, is merely starting, or has ended.

    With `in_gang`, the reason why it has no node is left out, for that is reported for its whole gang.
    """
    if replica.held_until is not None:
        return f"it was taken from the job again and again, and is made again at {replica.held_until:%H:%M:%S} UTC"
    if replica.state is ReplicaState.RESTARTING or (replica.state in _STATES_WITHOUT_POD and replica.cause):
        return f"restart ({replica.cause})"
    pod = replica.pod
    if pod is None or replica.state not in (ReplicaState.PENDING, ReplicaState.RUNNING):
        return ""
    return ("" if in_gang else _unscheduled(pod)) or _container_trouble(pod)


def waiting_summary(groups: Iterable[ReplicaGroup], *, in_gang: bool) -> str:
    """Return the reasons why replicas wait: `Worker-1 waits: ImagePullBackOff; PS-0 and PS-1 wait: ...`."""
    by_reason: dict[str, list[str]] = {}
    for group in groups:
        for replica in group.replicas:
            reason = waiting_reason(replica, in_gang=in_gang)
            if reason:
                by_reason.setdefault(reason, []).append(f"{group.type}-{replica.index}")
    parts = [f"{_names(who)}: {reason}" for reason, who in list(by_reason.items())[:_MAX_REASONS]]
    if len(by_reason) > _MAX_REASONS:
        others = sum(len(who) for who in list(by_reason.values())[_MAX_REASONS:])
        parts.append(f"{others} more for other reasons")
    return "; ".join(parts)


def _names(who: Sequence[str]) -> str:
    if len(who) == 1:
        return f"{who[0]} waits"
    if len(who) <= _MAX_NAMES:
        return f"{', '.join(who[:-1])} and {who[-1]} wait"
    return f"{', '.join(who[:_MAX_NAMES])} and {len(who) - _MAX_NAMES} more wait"


def _unscheduled(pod: Pod) -> str:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            reason = condition.reason or "Unschedulable"
            why = ", ".join(unschedulable_reasons(condition.message))
            return _cut(f"{reason}: {why}" if why else reason)
    return ""


def _container_trouble(pod: Pod) -> str:
    status = pod.status
    for container in status.init_container_statuses:
        if trouble := _trouble(container):
            return f"init container {container.name}: {trouble}"
    for container in status.container_statuses:
        if trouble := _trouble(container):
            return trouble if container.name == DEFAULT_CONTAINER_NAME else f"container {container.name}: {trouble}"
    return ""


def _trouble(container: ContainerStatus) -> str:
    waiting = container.state.waiting if container.state else None
    if waiting is None or waiting.reason in _STARTING_REASONS:
        return ""
    reason = _CANONICAL_REASONS.get(waiting.reason, waiting.reason)
    if reason in _REASONS_WITH_MESSAGE and waiting.message:
        return _cut(f"{reason}: {waiting.message}")
    return reason


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 3] + "..."


def unschedulable_reasons(message: str) -> list[str]:
    """Return the sorted reasons that a scheduler names, without numbers of nodes; none if it only repeats others."""
    text = _ORIGIN_PREFIX.sub("", _PREEMPTION.sub("", message)).strip()
    gap = _RESOURCE_GAP.search(text)
    if gap is not None:
        return sorted({f"Insufficient {name}" for name in _RESOURCE.findall(gap[1])})
    if _GANG_ECHO.search(text):
        return []
    reasons = _NODES_AVAILABLE.sub("", text)
    if reasons == text:
        return [text.rstrip(".")] if text else []
    return sorted({_LEADING_COUNT.sub("", part.strip()).rstrip(".") for part in reasons.split(", ")})
