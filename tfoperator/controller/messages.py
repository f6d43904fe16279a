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
    return _one_event("Create", created_pods, created_services)


def deletion_events(deleted_pods: Sequence[str], deleted_services: Sequence[str]) -> tuple[PlannedEvent, ...]:
    """The event (at most one) about pods and services that were deleted, given their names."""
    return _one_event("Delete", deleted_pods, deleted_services)


def problems_text(problems: Sequence[str]) -> str:
    """What is wrong with a job, on one line that fits into a condition."""
    text = "; ".join(" ".join(problem.split()) for problem in problems)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _one_event(verb: str, pods: Sequence[str], services: Sequence[str]) -> tuple[PlannedEvent, ...]:
    if pods:
        more = f" and {_counted('service', len(services))}" if services else ""
        return (PlannedEvent("Normal", f"Successful{verb}Pod", f"{verb}d {_listed('pod', pods)}{more}"),)
    if services:
        return (PlannedEvent("Normal", f"Successful{verb}Service", f"{verb}d {_listed('service', services)}"),)
    return ()


def _listed(kind: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{kind}: {names[0]}"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{len(names)} {kind}s: {', '.join(names[:_MAX_NAMES])}{more}"


def _counted(kind: str, count: int) -> str:
    return f"{count} {kind}" if count == 1 else f"{count} {kind}s"
