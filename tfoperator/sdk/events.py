"""Events about a job: its own, and those of the pods, services and pod group that belong to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.kube.objects import HasMetadata

__all__ = ["EventFilter", "JobEvent", "decode_event", "events_of"]

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_PARTS = "|".join(replica_type.lower() for replica_type in ReplicaType)


class InvolvedObject(msgspec.Struct, frozen=True):
    """What an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(msgspec.Struct, frozen=True):
    """Who says it."""

    component: str = ""


class EventSeries(msgspec.Struct, frozen=True, rename="camel"):
    """How often, as newer reporters write it."""

    count: int = 0
    last_observed_time: datetime | None = None


class JobEvent(HasMetadata, frozen=True, rename="camel"):
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
        """When it happened (last)."""
        newest = self.series.last_observed_time if self.series is not None else None
        created = self.metadata.creation_timestamp
        return newest or self.last_timestamp or self.event_time or created or _LONG_AGO

    @property
    def times(self) -> int:
        """How often it happened."""
        return (self.series.count if self.series is not None else 0) or self.count or 1

    @property
    def subject(self) -> str:
        """`kind/name` of what it is about, the kind in lower case as kubectl writes it."""
        return f"{self.involved_object.kind.lower()}/{self.involved_object.name}"

    @property
    def reporter(self) -> str:
        """The component that says it."""
        return self.reporting_component or (self.source.component if self.source is not None else "")


decode_event = msgspec.json.Decoder(JobEvent).decode
"""Decodes one event from JSON."""


class EventFilter:
    """Tells whether an event is about a job or a part of it. The parts are known by name: they may be gone already."""

    def __init__(self, job: TFJob) -> None:
        self._job = job
        self._part = re.compile(rf"{re.escape(job.metadata.name)}-(?:{_PARTS})-\d+(?:-[0-9a-z]+)?")

    def __call__(self, event: JobEvent) -> bool:
        """Whether it is."""
        meta, about = self._job.metadata, event.involved_object
        # An earlier job of this name had parts of the same names.
        if meta.creation_timestamp is not None and event.last_seen < meta.creation_timestamp:
            return False
        if about.kind == "TFJob":
            return about.name == meta.name and about.uid in ("", meta.uid)
        if about.kind == "PodGroup":
            return about.name == meta.name
        return about.kind in ("Pod", "Service") and self._part.fullmatch(about.name) is not None


def events_of(job: TFJob, events: Iterable[JobEvent]) -> list[JobEvent]:
    """Those that are about the job or its parts, the oldest first."""
    return sorted(filter(EventFilter(job), events), key=lambda event: event.last_seen)
