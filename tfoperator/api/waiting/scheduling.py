"""Finds, in the scheduler's message, the reason why no node fits a pod; numbers of nodes are left out.

A scheduler's message counts the nodes to which each reason applies. Messages of gang schedulers also name pods and
count the gang's members. Most messages of gang schedulers only report that another pod of the gang found no node. The
message of this other pod already shows the reason.
"""

from __future__ import annotations

import re

from tfoperator.api.waiting.reason import Reason, ReasonKind, reason_by_name, words
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import PodCondition

_PREEMPTION = re.compile(r"\.?\s*preemption:.*", re.DOTALL)
_ECHO_OF_MISSING = re.compile(r"(?<=not found)\. not found\.?$")
"""The second of two reports in the same message of Kubernetes' scheduler that a claim was not found."""
_NODES_AVAILABLE = re.compile(r"^\d+/\d+ nodes are (?:un)?available: ")
_LEADING_COUNT = re.compile(r"^\d+ ")

_ORIGIN_PREFIX = re.compile(r".*Origin reason is\s*(?:\S+)?: ", re.DOTALL)
"""The text in a message of Volcano that comes before the message about one pod, after the summary of the gang."""

_RESOURCE_GAP = re.compile(r"resource gap: map\[(.*?)\](?:\.|$)", re.DOTALL)
_RESOURCE = re.compile(r"([\w./-]+):\{")
"""The name of a resource in the `resource gap` of a message. The coscheduling plugin prints the gap as structs of Go:
`resource gap: map[cpu:{{5000 -3} {<nil>} DecimalSI}]`.
"""

_GANG_ECHO = re.compile(
    r"pod group is not ready|tasks in gang unschedulable|can possibly be assigned|all nodes are unavailable$"  # Volcano
    r"|cannot find enough sibling pods|failed recently|optimistic rejection|gets rejected due to|PodGroup not found"
    r"|rejected due to timeout|rejection in Unreserve"
    r"|minCount|pod group is unschedulable"  # Kubernetes' own scheduler
)
"""Messages that give no reason for this pod itself: the pod waits because of its gang, for example for another pod of
the gang.
"""

_REMEDIES = (
    (
        re.compile(r"persistentvolumeclaim \"[^\"]*\" not found"),
        "create the PersistentVolumeClaim, or correct its name in the replica's template",
    ),
    (
        re.compile(r"unbound immediate PersistentVolumeClaims"),
        "to see why the claim has no volume: kubectl describe pvc",
    ),
    (
        re.compile(r"Insufficient |Too many pods"),
        "wait until other pods end, request less, or ask an administrator for more nodes",
    ),
    (
        re.compile(r"node affinity|node selector|nodeSelector|node\(s\) didn't match"),
        "correct nodeSelector and affinity in the replica's template, or ask an administrator to label a node",
    ),
    (
        re.compile(r"untolerated taint"),
        "add a toleration to the replica's template, or ask an administrator to remove the taint",
    ),
    (re.compile(r"unschedulable|cordoned"), "ask an administrator to uncordon a node, or for more nodes"),
    (re.compile(r"no nodes available"), "ask an administrator to add nodes"),
)
"""The remedies, by a scheduler's words, the most important first."""

_MAX_REMEDIES = 2


def unschedulable_reasons(message: str) -> list[str]:
    """Return the sorted reasons in a scheduler's message, without numbers of nodes.

    The result is empty if the message only concerns other pods.
    """
    text = _ECHO_OF_MISSING.sub("", _ORIGIN_PREFIX.sub("", _PREEMPTION.sub("", message)).strip())
    gap = _RESOURCE_GAP.search(text)
    if gap is not None:
        return sorted({f"Insufficient {name}" for name in _RESOURCE.findall(gap[1])})
    if _GANG_ECHO.search(text):
        return []
    reasons = _NODES_AVAILABLE.sub("", text)
    if reasons == text:
        return [text.rstrip(".")] if text else []
    return sorted({_LEADING_COUNT.sub("", part.strip()).rstrip(".") for part in reasons.split(", ")})


def why_no_node(pod: Pod) -> Reason | None:
    """Return why a scheduler has found no node for the pod.

    Return None if the pod has a node, or if no scheduler has tried yet.
    """
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _reason(condition)
    return None


def remedy_for(obstacles: str) -> str:
    """Return the remedy for the obstacles in a scheduler's message; empty if there is no known remedy."""
    return ", and ".join([remedy for pattern, remedy in _REMEDIES if pattern.search(obstacles)][:_MAX_REMEDIES])


def _reason(condition: PodCondition) -> Reason:
    if condition.reason == "SchedulingGated":
        return Reason(
            ReasonKind.GATED,
            "its pod has a scheduling gate, so the scheduler skips it",
            "wait until the controller that set spec.schedulingGates of the pod removes the gate, or read that "
            "controller's log",
        )
    obstacles = unschedulable_reasons(condition.message)
    message = words(", ".join(obstacles))
    if condition.reason not in ("", ReasonKind.UNSCHEDULABLE):
        return reason_by_name(condition.reason, message, remedy_for(message))
    if not obstacles and condition.message:
        return Reason(
            ReasonKind.UNSCHEDULABLE,
            "the scheduler can't find nodes for enough pods of its gang",
            "read why the other replicas wait",
        )
    return Reason(ReasonKind.UNSCHEDULABLE, message, remedy_for(message))
