"""An event, as far as a launcher reads it: why a pod does not start."""

from __future__ import annotations

from datetime import UTC, datetime

from tfoperator.kube.objects import HasMetadata

__all__ = ["EventView"]

_NEVER = datetime.min.replace(tzinfo=UTC)


class EventView(HasMetadata, frozen=True, rename="camel"):
    """Events are written in an old and a new way; either has the times that count."""

    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def when(self) -> datetime:
        """When it happened last."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp or _NEVER
