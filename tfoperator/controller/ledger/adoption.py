"""Decides whether a job may adopt a pod without an owner. Pure.

If a job is deleted with `--cascade=orphan`, its pods remain. These pods have the labels and names that a new job of the
same name needs, but they ran the spec of the old job. If the new job adopted such a pod, the job could succeed although
its program never ran.
"""

from __future__ import annotations

from tfoperator.api.replicas.replica_pods import ENDED_PHASES, replica_phase
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.kube.views.objects import HasMetadata, Pod


def why_not_adopted(job: TFJob, orphan: HasMetadata) -> str:
    """Return why the job may not adopt this pod without an owner, as the end of a sentence about the pod; "" if it may.

    A pod is not adopted if it was made before the job, or has ended. API servers record creation times in whole
    seconds, so a pod that was made in the same second as the job may be adopted. Objects of other kinds have no effect
    on the job's result, so their age does not matter.
    """
    if not isinstance(orphan, Pod):
        return ""
    born, made = job.metadata.creation_timestamp, orphan.metadata.creation_timestamp
    if born is not None and made is not None and seconds_between(made, born) > 0:
        return "is older than this job, so this job does not adopt it"
    if replica_phase(orphan) in ENDED_PHASES:
        return "ended before this job could adopt it"
    return ""
