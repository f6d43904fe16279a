"""Events about a job: its own, and those of its pods, services and pod group."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.kube.event import Event as JobEvent

__all__ = ["EventFilter", "JobEvent", "events_of"]

_PARTS = "|".join(replica_type.lower() for replica_type in ReplicaType)


class EventFilter:
    """Tells whether an event is about a job or a part of it. Parts are identified by name: they may be deleted."""

    def __init__(self, job: TFJob) -> None:
        self._job = job
        self._part = re.compile(rf"{re.escape(job.metadata.name)}-(?:{_PARTS})-\d+(?:-[0-9a-z]+)?")

    def __call__(self, event: JobEvent) -> bool:
        """Return whether the event is."""
        meta, about = self._job.metadata, event.involved_object
        # An earlier job of this name had parts with the same names.
        if meta.creation_timestamp is not None and event.last_seen < meta.creation_timestamp:
            return False
        if about.kind == "TFJob":
            return about.name == meta.name and about.uid in ("", meta.uid)
        if about.kind == "PodGroup":
            return about.name == meta.name
        return about.kind in ("Pod", "Service") and self._part.fullmatch(about.name) is not None


def events_of(job: TFJob, events: Iterable[JobEvent]) -> list[JobEvent]:
    """Return the events about the job or its parts, the oldest first."""
    return sorted(filter(EventFilter(job), events), key=lambda event: event.last_seen)
