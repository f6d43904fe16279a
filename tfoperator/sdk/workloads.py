"""Kueue's resources for jobs and for other clusters, in each of its versions."""

from __future__ import annotations

import msgspec

from tfoperator.api.workloads import Condition
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


class ClusterStatus(msgspec.Struct, frozen=True):
    """Whether Kueue reaches a cluster."""

    conditions: tuple[Condition, ...] = ()


class MultiKueueCluster(HasMetadata, frozen=True):
    """Kueue's record of another cluster."""

    status: ClusterStatus = msgspec.field(default_factory=ClusterStatus)


decode_cluster = decoder(MultiKueueCluster)
"""Decodes one MultiKueueCluster. Raises msgspec.DecodeError."""
