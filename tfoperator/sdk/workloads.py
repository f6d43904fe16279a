"""Kueue's objects for jobs and for other clusters, reduced to the fields in use."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import decoder

_VERSIONS = ("v1beta2", "v1beta1")
"""The newest first. Kueue before 0.15 has only the second one."""

WORKLOADS = tuple(Resource("kueue.x-k8s.io", version, "Workload", "workloads") for version in _VERSIONS)
"""Kueue's records of jobs, in each of its versions."""

CLUSTERS = tuple(
    Resource("kueue.x-k8s.io", version, "MultiKueueCluster", "multikueueclusters", namespaced=False)
    for version in _VERSIONS
)
"""Kueue's records of the clusters on which MultiKueue runs jobs."""


class WorkloadCondition(msgspec.Struct, frozen=True):
    """One observation of Kueue's about a job."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AdmissionCheck(msgspec.Struct, frozen=True):
    """A check that must pass before a job with quota may run."""

    name: str = ""
    state: str = ""
    message: str = ""


class Admission(msgspec.Struct, frozen=True, rename="camel"):
    """The owner of a job's quota."""

    cluster_queue: str = ""


class RequeueState(msgspec.Struct, frozen=True, rename="camel"):
    """When Kueue reconsiders a job that it evicted."""

    requeue_at: datetime | None = None


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The request to Kueue. If inactive, Kueue evicts the job, and ignores it."""

    queue_name: str = ""
    active: bool | None = None


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a job in its queue."""

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
