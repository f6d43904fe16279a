"""Kueue's resources that the operator reads and writes, and the flavors of nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.api.kueue.queues import JOB_UID_LABEL
from tfoperator.kube.protocol.options import Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.objects import HasMetadata, compacting

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"

FLAVORS = Resource(_GROUP, _VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
WORKLOAD_PRIORITIES = Resource(_GROUP, _VERSION, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)

OF_JOBS = Selection(label_selector=JOB_UID_LABEL)
"""Selects the Workloads of jobs of every kind: the label has the UID of the job, but not its kind."""

IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer that keeps a deleted Workload, and so its quota, until its pods are gone."""


class AskedSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The pod sets of a Workload as they are stored."""

    pod_sets: tuple[dict[str, Any], ...] = ()


class RequestedWorkload(HasMetadata, frozen=True):
    """A Workload with the templates of its pods, which the cache does not keep."""

    spec: AskedSpec = msgspec.field(default_factory=AskedSpec)


decode_asked = decoder(RequestedWorkload)


class FlavorSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes of a flavor: pods with this flavor get the labels as node selector, and get the tolerations."""

    node_labels: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class Flavor(HasMetadata, frozen=True):
    """One flavor of nodes.

    If `is_whole` is false, the cache lacks the flavor's spec: the operator reads the spec with a LIST if needed.
    """

    spec: FlavorSpec = msgspec.field(default_factory=FlavorSpec)
    is_whole: bool = msgspec.field(default=True, name="-")


decode_flavor = decoder(Flavor)


class Priority(HasMetadata, frozen=True):
    """A WorkloadPriorityClass of Kueue, or a PriorityClass of Kubernetes. Only a PriorityClass has `globalDefault`."""

    value: int = 0
    global_default: bool = msgspec.field(default=False, name="globalDefault")


decode_priority = compacting(decoder(Priority))
