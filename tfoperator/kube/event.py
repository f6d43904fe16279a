"""A core/v1 Event as a typed view. Reporters set its times in an old and a new form; both are read."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from tfoperator.kube.objects import HasMetadata

_OLDEST_TIME = datetime.min.replace(tzinfo=UTC)


class InvolvedObject(msgspec.Struct, frozen=True):
    """The object that an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(msgspec.Struct, frozen=True):
    """The component that reports it."""

    component: str = ""


class EventSeries(msgspec.Struct, frozen=True, rename="camel"):
    """The number of occurrences, as newer reporters write it."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(HasMetadata, frozen=True, rename="camel"):
    """One event. `type` is Normal or Warning."""

    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    involved_object: InvolvedObject = msgspec.field(default_factory=InvolvedObject)
    source: EventSource | None = None
    series: EventSeries | None = None
    event_time: datetime | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    reporting_component: str = ""

    @property
    def last_seen(self) -> datetime:
        """The time of the (last) occurrence."""
        newest = self.series.last_observed_time if self.series is not None else None
        created = self.metadata.creation_timestamp
        return newest or self.last_timestamp or self.event_time or created or _OLDEST_TIME

    @property
    def times(self) -> int:
        """The number of occurrences."""
        return (self.series.count if self.series is not None else 0) or self.count or 1

    @property
    def subject(self) -> str:
        """`kind/name` of the object, the kind in lower case as kubectl writes it."""
        return f"{self.involved_object.kind.lower()}/{self.involved_object.name}"

    @property
    def reporter(self) -> str:
        """The component that reports it."""
        return self.reporting_component or (self.source.component if self.source is not None else "")


decode_event = msgspec.json.Decoder(Event).decode
"""Decodes one event from JSON."""
