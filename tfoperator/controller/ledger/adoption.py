"""Decides whether a job may adopt a pod without an owner. Pure.

A job that is deleted with `--cascade=orphan` leaves its pods. They have the labels and names that a new job of the same
name needs, but they ran another spec. If one of them decided, the new job could succeed although its program never ran.
"""

from __future__ import annotations

from tfoperator.api.replicas.replica_pods import ENDED_PHASES, replica_phase
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.kube.views.objects import HasMetadata, Pod


def why_not_adopted(job: TFJob, orphan: HasMetadata) -> str:
    """Return why the job may not adopt this orphan, as the end of a sentence about it; "" if it may.

    A pod is not adopted if it was made before the job, or has ended. API servers date objects in whole seconds, so a
    pod of the same second counts as the job's. Other kinds of objects decide nothing, whatever their age.
    """
    if not isinstance(orphan, Pod):
        return ""
    born, made = job.metadata.creation_timestamp, orphan.metadata.creation_timestamp
    if born is not None and made is not None and seconds_between(made, born) > 0:
        return "is older than this job, so this job does not adopt it"
    if replica_phase(orphan) in ENDED_PHASES:
        return "ended before this job could adopt it"
    return ""
