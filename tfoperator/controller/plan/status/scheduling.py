"""Why pods have no node, read out of schedulers' messages in words that stay the same while the reason does.

A message counts the nodes to which each reason applies, and changes with every attempt. Those of gang schedulers also
name pods and count the gang's members, and most only say that another pod of the gang had no room, which is no news.
"""

from __future__ import annotations

import re

_PREEMPTION = re.compile(r"\.?\s*preemption:.*", re.DOTALL)
_NODES_AVAILABLE = re.compile(r"^\d+/\d+ nodes are (?:un)?available: ")
_LEADING_COUNT = re.compile(r"^\d+ ")

_ORIGIN = re.compile(r".*Origin reason is\s*(?:\S+)?: ", re.DOTALL)
"""Volcano's lead to the message about one pod, behind its account of the gang."""

_RESOURCE_GAP = re.compile(r"resource gap: map\[(.*?)\](?:\.|$)", re.DOTALL)
_RESOURCE = re.compile(r"([\w./-]+):\{")
"""The coscheduling plugin prints Go's structs: `resource gap: map[cpu:{{5000 -3} {<nil>}  DecimalSI}]`."""

_ECHO = re.compile(
    r"pod group is not ready|tasks in gang unschedulable|can possibly be assigned|all nodes are unavailable$"  # Volcano
    r"|cannot find enough sibling pods|failed recently|optimistic rejection|gets rejected due to|PodGroup not found"
    r"|rejected due to timeout|rejection in Unreserve"
)
"""That something else than this pod keeps the gang waiting."""


def unschedulable_reasons(message: str) -> list[str]:
    """The reasons that a scheduler names, sorted, without their numbers of nodes; none if it only repeats others."""
    text = _ORIGIN.sub("", _PREEMPTION.sub("", message)).strip()
    gap = _RESOURCE_GAP.search(text)
    if gap is not None:
        return sorted({f"Insufficient {name}" for name in _RESOURCE.findall(gap[1])})
    if _ECHO.search(text):
        return []
    reasons = _NODES_AVAILABLE.sub("", text)
    if reasons == text:
        return [text.rstrip(".")] if text else []
    return sorted({_LEADING_COUNT.sub("", part.strip()).rstrip(".") for part in reasons.split(", ")})
