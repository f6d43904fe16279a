"""An event about a job, for people and for programs. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tfoperator.cli.views.ages import age

if TYPE_CHECKING:
    from tfoperator.sdk import JobEvent

EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def event_row(event: JobEvent, now: datetime) -> tuple[str, ...]:
    """The cells under EVENT_HEADER."""
    seen = age(event.last_seen, now) + (f" (x{event.times})" if event.times > 1 else "")
    return (seen, event.type, event.reason, event.subject, event.message)


def event_summary(event: JobEvent) -> dict[str, Any]:
    """An event for a program: what it says, about what, when and how often."""
    return {
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "kind": event.involved_object.kind,
        "name": event.involved_object.name,
        "count": event.times,
        "lastSeen": event.last_seen.isoformat(),
        "source": event.reporter,
    }
