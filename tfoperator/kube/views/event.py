"""A core/v1 Event as a typed view.

The components that report events set the times in an old or in a new format. This module reads both formats.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from tfoperator.kube.views.objects import HasMetadata, ObjectMeta

_OLDEST_TIME = datetime.min.replace(tzinfo=UTC)


class ObjectReference(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """`core/v1 ObjectReference`: names one object.

    With `field_path`, the reference names a part of the object, for example one container of a pod.
    """

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""

    @classmethod
    def to(cls, api_version: str, kind: str, metadata: ObjectMeta) -> ObjectReference:
        """Create a reference to an object from its metadata.

        The caller passes `api_version` and `kind`, because decoded views don't contain these fields.
        """
        return cls(
            api_version=api_version,
            kind=kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"


class EventSource(msgspec.Struct, frozen=True):
    """The component that reports an event."""

    component: str = ""


class EventSeries(msgspec.Struct, frozen=True, rename="camel"):
    """The number of occurrences and the time of the last occurrence, in the newer format of events."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(HasMetadata, frozen=True, rename="camel"):
    """One event. `type` is Normal or Warning."""

    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    involved_object: ObjectReference = ObjectReference()
    source: EventSource | None = None
    series: EventSeries | None = None
    event_time: datetime | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    reporting_component: str = ""

    @property
    def last_seen(self) -> datetime:
        """The time of the last occurrence.

        The first of these fields that is set contains the time: `series`, `lastTimestamp`, `eventTime`,
        `creationTimestamp`.
        """
        newest = self.series.last_observed_time if self.series is not None else None
        created = self.metadata.creation_timestamp
        return newest or self.last_timestamp or self.event_time or created or _OLDEST_TIME

    @property
    def times(self) -> int:
        """The number of occurrences."""
        return (self.series.count if self.series is not None else 0) or self.count or 1

    @property
    def subject(self) -> str:
        """`kind/name` of the involved object. The kind is in lower case, as in kubectl's output."""
        return f"{self.involved_object.kind.lower()}/{self.involved_object.name}"

    @property
    def reporter(self) -> str:
        """The component that reports the event."""
        return self.reporting_component or (self.source.component if self.source is not None else "")


decode_event = msgspec.json.Decoder(Event).decode
"""Decodes one event from JSON."""
