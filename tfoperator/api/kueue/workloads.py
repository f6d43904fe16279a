"""Kueue's Workloads (records of jobs) and MultiKueueClusters (records of clusters): the fields that this code uses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tfoperator.api.kueue.queues import ADOPTED, POD_SETS_ANNOTATION, REPLACES_ANNOTATION
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.objects import HasMetadata

_VERSIONS = ("v1beta2", "v1beta1")
"""The versions of Kueue's API, the newest first. Kueue before 0.15 has only v1beta1."""

WORKLOAD_VERSIONS = tuple(Resource("kueue.x-k8s.io", version, "Workload", "workloads") for version in _VERSIONS)
"""Kueue's records of jobs, in each of its versions."""

WORKLOADS = WORKLOAD_VERSIONS[0]  # the only version that the operator itself uses

CLUSTER_VERSIONS = tuple(
    Resource("kueue.x-k8s.io", version, "MultiKueueCluster", "multikueueclusters", namespaced=False)
    for version in _VERSIONS
)
"""Kueue's records of the clusters on which MultiKueue runs jobs."""


class WorkloadCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One condition of a Workload.

    The struct has all members of a condition, because the operator writes the whole list of conditions back in a merge
    patch.
    """

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class PodSet(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A request for quota for the pods of one replica type, without the pod template.

    `min_count` is the smallest number of pods with which the job can start.
    """

    name: str = ""
    count: int = 1
    min_count: int | None = None


class PriorityClassRef(msgspec.Struct, frozen=True, gc=False):
    """The class that a Workload's priority comes from."""

    group: str = ""
    name: str = ""


class WorkloadSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Workload: the request to Kueue.

    If `active` is false, Kueue evicts the job and then ignores the Workload.
    """

    queue_name: str = ""
    active: bool | None = None
    pod_sets: tuple[PodSet, ...] = ()
    priority_class_ref: PriorityClassRef | None = None
    maximum_execution_time_seconds: int | None = None


class Assignment(msgspec.Struct, frozen=True, rename="camel"):
    """The quota of one pod set: a flavor for each resource, the number of pods, and the topology domains."""

    name: str = ""
    flavors: dict[str, str] = {}
    count: int | None = None
    topology_assignment: Any = None


class Admission(msgspec.Struct, frozen=True, rename="camel"):
    """The quota that a Workload has."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[Assignment, ...] = ()


class PodSetUpdate(msgspec.Struct, frozen=True, rename="camel"):
    """The changes that an admission check requests for the pods of one pod set."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class AdmissionCheck(msgspec.Struct, frozen=True, rename="camel"):
    """A check that must pass before a Workload with quota is admitted."""

    name: str = ""
    state: str = ""
    message: str = ""
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class ReclaimablePod(msgspec.Struct, frozen=True, gc=False):
    """How many pods of a pod set need no quota any more."""

    name: str = ""
    count: int = 0


class RequeueState(msgspec.Struct, frozen=True, rename="camel"):
    """When Kueue reconsiders a job that it evicted."""

    requeue_at: datetime | None = None


class WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Kueue's answer to the request of a `WorkloadSpec`; the fields with names of clusters come from MultiKueue."""

    conditions: tuple[WorkloadCondition, ...] = ()
    admission: Admission | None = None
    admission_checks: tuple[AdmissionCheck, ...] = ()
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    accumulated_past_execution_time_seconds: int = 0
    requeue_state: RequeueState | None = None
    cluster_name: str = ""
    nominated_cluster_names: tuple[str, ...] = ()


class Workload(HasMetadata, frozen=True):
    """One job's request for quota, without pod templates, and Kueue's answer to the request."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)

    def condition(self, kind: str) -> WorkloadCondition:
        """Return the condition of this type; a condition without a status if there is none."""
        return next((condition for condition in self.status.conditions if condition.type == kind), _NO_CONDITION)

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of this type is true."""
        return self.condition(kind).status == "True"

    @property
    def mark(self) -> str:
        """The value of `POD_SETS_ANNOTATION`, for example a hash of the pod sets from which the Workload was made.

        Only a Workload that the operator handles has this annotation. The value is empty for a Workload that Kueue's
        built-in TFJob integration handles.
        """
        return self.metadata.annotations.get(POD_SETS_ANNOTATION, "")

    @property
    def replaces(self) -> str:
        """The key (`namespace/name`) of the Workload that this Workload replaces; empty if none.

        The other Workload is replaced as soon as this Workload has quota.
        """
        return self.metadata.annotations.get(REPLACES_ANNOTATION, "")

    @property
    def is_adopted(self) -> bool:
        """Whether Kueue's built-in TFJob integration created the Workload before the operator managed the job.

        An administrator then handed the Workload over to the operator (docs/operate/kueue-handover.md).
        """
        return self.mark.partition("-")[0] == ADOPTED


_NO_CONDITION = WorkloadCondition()

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
