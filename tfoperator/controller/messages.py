"""Events and their wording. One event for all that a sync did: an event per pod costs as much as the pod itself."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.controller.actions import PlannedEvent

__all__ = [
    "creation_events",
    "deletion_events",
    "problems_text",
]

_MAX_NAMES = 5
_MAX_TEXT = 1000


def creation_events(created_pods: Sequence[str], created_services: Sequence[str]) -> tuple[PlannedEvent, ...]:
    """The event (at most one) about pods and services that were created, given their names."""
    if created_pods:
        text = f"Created {_listed('pod', created_pods)}"
        if created_services:
            text += f" and {_counted('service', len(created_services))}"
        return (PlannedEvent("Normal", "SuccessfulCreatePod", text),)
    if created_services:
        return (PlannedEvent("Normal", "SuccessfulCreateService", f"Created {_listed('service', created_services)}"),)
    return ()


def deletion_events(deleted_pods: Sequence[str], deleted_services: Sequence[str]) -> tuple[PlannedEvent, ...]:
    """The event (at most one) about pods and services that were deleted, given their names."""
    if deleted_pods:
        text = f"Deleted {_listed('pod', deleted_pods)}"
        if deleted_services:
            text += f" and {_counted('service', len(deleted_services))}"
        return (PlannedEvent("Normal", "SuccessfulDeletePod", text),)
    if deleted_services:
        return (PlannedEvent("Normal", "SuccessfulDeleteService", f"Deleted {_listed('service', deleted_services)}"),)
    return ()


def problems_text(problems: Sequence[str]) -> str:
    """What is wrong with a job, on one line that fits into a condition."""
    text = "; ".join(" ".join(problem.split()) for problem in problems)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _listed(kind: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{kind}: {names[0]}"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{len(names)} {kind}s: {', '.join(names[:_MAX_NAMES])}{more}"


def _counted(kind: str, count: int) -> str:
    return f"{count} {kind}" if count == 1 else f"{count} {kind}s"
