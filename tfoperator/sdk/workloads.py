"""What Kueue has written about jobs and about other clusters, as far as somebody reads it here."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import decoder

_VERSIONS = ("v1beta2", "v1beta1")
"""The newest first. Kueue before 0.15 knows the second one only."""

WORKLOADS = tuple(Resource("kueue.x-k8s.io", version, "Workload", "workloads") for version in _VERSIONS)
"""Kueue's records of jobs, in each of its versions."""

CLUSTERS = tuple(
    Resource("kueue.x-k8s.io", version, "MultiKueueCluster", "multikueueclusters", namespaced=False)
    for version in _VERSIONS
)
"""Kueue's records of the clusters on which MultiKueue has jobs run."""


class WorkloadCondition(msgspec.Struct, frozen=True):
    """One observation of Kueue's about a job."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AdmissionCheck(msgspec.Struct, frozen=True):
    """Something that has to agree before a job with quota may run."""

    name: str = ""
    state: str = ""
    message: str = ""


class Admission(msgspec.Struct, frozen=True, rename="camel"):
    """Whose quota a job has."""

    cluster_queue: str = ""


class RequeueState(msgspec.Struct, frozen=True, rename="camel"):
    """When Kueue looks at a job again that it has taken back."""

    requeue_at: datetime | None = None


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What Kueue was told. Inactive it lets go of the job, and leaves it alone."""

    queue_name: str = ""
    active: bool | None = None


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How a job stands in its queue."""

    conditions: tuple[WorkloadCondition, ...] = ()
    admission: Admission | None = None
    admission_checks: tuple[AdmissionCheck, ...] = ()
    requeue_state: RequeueState | None = None
    cluster_name: str = ""
    nominated_cluster_names: tuple[str, ...] = ()


class Workload(HasMetadata, frozen=True):
    """Kueue's record of a job, without its pod templates."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


decode_workload = decoder(Workload)
"""Decodes one Workload. Raises msgspec.DecodeError."""


class ClusterStatus(msgspec.Struct, frozen=True):
    """Whether Kueue reaches a cluster."""

    conditions: tuple[WorkloadCondition, ...] = ()


class MultiKueueCluster(HasMetadata, frozen=True):
    """Kueue's record of another cluster."""

    status: ClusterStatus = msgspec.field(default_factory=ClusterStatus)


decode_cluster = decoder(MultiKueueCluster)
"""Decodes one MultiKueueCluster. Raises msgspec.DecodeError."""
