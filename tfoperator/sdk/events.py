"""Selects the events about a job: about the TFJob, its pods, its services and its PodGroup."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.event import Event as JobEvent

__all__ = ["JobEvent", "concerns", "events_of", "job_named"]

_PART = re.compile(rf"(.+)-(?:{'|'.join(kind.lower() for kind in ReplicaType)})-\d+(?:-[0-9a-z]+)?")
_MAX_NAME = 253  # of an object


def job_named(event: JobEvent) -> str:
    """Return the name of the job to which an event refers; "" if the event is not about a job or a part of a job.

    The parts of a job (pods, services, PodGroup) are recognized by their names, for example `mnist-worker-0`. Events do
    not contain the labels of a part, and its labels can't be read after the part is deleted.
    """
    about = event.involved_object
    if about.kind in ("TFJob", "PodGroup"):
        return about.name
    part = _PART.fullmatch(about.name) if about.kind in ("Pod", "Service") and len(about.name) <= _MAX_NAME else None
    return part[1] if part is not None else ""


def concerns(job: TFJob, event: JobEvent) -> bool:
    """Return whether the event is about the job, or about a pod, a service or the PodGroup of the job."""
    meta, about = job.metadata, event.involved_object
    # An older event is about an earlier job of this name, or about its pods, which had the same names.
    if meta.creation_timestamp is not None and event.last_seen < meta.creation_timestamp:
        return False
    return job_named(event) == meta.name and (about.kind != "TFJob" or about.uid in ("", meta.uid))


def events_of(job: TFJob, events: Iterable[JobEvent]) -> list[JobEvent]:
    """Return the events about the job and its pods, services and PodGroup, the oldest first."""
    return sorted((event for event in events if concerns(job, event)), key=lambda event: event.last_seen)
