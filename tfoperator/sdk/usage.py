"""The resource usage of pods, from the metrics API: metrics-server in a cluster, the control plane on one machine.

Many clusters have no metrics API, and many users may not read it. So unavailable values are left out: that is no error,
and the read costs one request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from tfoperator.api.names import LABEL_JOB_NAME
from tfoperator.api.quantity import parse_quantity
from tfoperator.kube.errors import KubeError
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.options import ListOptions
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, decoder

logger = logging.getLogger(__name__)

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")

_GPU, _GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpu-memory"


class PodUsage(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's usage: CPUs on average over the last window of measurement, bytes of memory, and its GPUs if known.

    `gpu` is the number of its busy devices, e.g. 1.5 of 2. Only `tfoperator run` and `local up` report GPUs.
    """

    cpu: float = 0.0
    memory: int = 0
    gpu: float | None = None
    gpu_memory: int | None = None

    def __add__(self, other: PodUsage) -> PodUsage:
        """Return the sum of both."""
        gpus = [one for one in (self.gpu, other.gpu) if one is not None]
        memories = [one for one in (self.gpu_memory, other.gpu_memory) if one is not None]
        return PodUsage(
            self.cpu + other.cpu,
            self.memory + other.memory,
            sum(gpus) if gpus else None,
            sum(memories) if memories else None,
        )


class _ContainerMetrics(msgspec.Struct, frozen=True):
    usage: dict[str, str | int] = {}


class _PodMetrics(HasMetadata, frozen=True):
    containers: tuple[_ContainerMetrics, ...] = ()


_decode = decoder(_PodMetrics)


class MeasuredPod(msgspec.Struct, frozen=True):
    """A measured pod; `job` is empty if it belongs to no TFJob."""

    namespace: str
    name: str
    job: str
    usage: PodUsage


def measured_pods(client: ApiClient, namespace: str, selector: str) -> list[MeasuredPod]:
    """Return the measured pods that a label selector matches; none without a metrics API. Never raises.

    An empty namespace means all namespaces.
    """
    try:
        page = client.list(POD_METRICS, namespace, _decode, ListOptions(label_selector=selector))
    except KubeError as error:
        logger.debug("no metrics: %s", error)
        return []
    return [
        MeasuredPod(
            one.metadata.namespace,
            one.metadata.name,
            one.metadata.labels.get(LABEL_JOB_NAME, ""),
            total(_container_usage(container.usage) for container in one.containers),
        )
        for one in page.items
    ]


def total(usages: Iterable[PodUsage]) -> PodUsage:
    """Return the sum of all of them."""
    return sum(usages, PodUsage())


def _container_usage(usage: dict[str, str | int]) -> PodUsage:
    cpu, memory = _number(usage, "cpu"), _number(usage, "memory")
    gpu, gpu_memory = _number(usage, _GPU), _number(usage, _GPU_MEMORY)
    return PodUsage(cpu or 0.0, int(memory or 0), gpu, None if gpu_memory is None else int(gpu_memory))


def _number(usage: dict[str, str | int], name: str) -> float | None:
    try:
        return float(parse_quantity(usage[name])) if name in usage else None
    except ValueError:
        return None
