"""The present usage of CPUs, memory and GPUs by pods.

The data come from the API `metrics.k8s.io`. In a cluster, metrics-server serves this API. On one machine, the local
control plane serves it. Many clusters have no such API, and many users have no right to read it. So values that are not
available are left out without an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.api.replicas.names import LABEL_JOB_NAME
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.options import ListOptions
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient, decoder
from tfoperator.kube.views.objects import HasMetadata

logger = logging.getLogger(__name__)

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")

_GPU, _GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpu-memory"


class PodUsage(msgspec.Struct, frozen=True, rename="camel"):
    """The usage of a pod.

    `cpu` is the average number of CPUs in the last measurement interval. `memory` and `gpu_memory` are in bytes. `gpu`
    is the average number of busy GPUs, for example 1.5 of 2. Only `tfoperator run` and `local up` report the use of
    GPUs.
    """

    cpu: float = 0.0
    memory: int = 0
    gpu: float | None = None
    gpu_memory: int | None = None

    def __add__(self, other: PodUsage) -> PodUsage:
        """Return the sum of two usages."""
        gpus = [figure for figure in (self.gpu, other.gpu) if figure is not None]
        memories = [figure for figure in (self.gpu_memory, other.gpu_memory) if figure is not None]
        return PodUsage(
            self.cpu + other.cpu,
            self.memory + other.memory,
            sum(gpus) if gpus else None,
            sum(memories) if memories else None,
        )


class _ContainerMetrics(msgspec.Struct, frozen=True):
    usage: dict[str, str | int | float] = {}


class PodMetrics(HasMetadata, frozen=True):
    """The usage of a pod as the metrics API returns it, with the time of the measurement."""

    timestamp: datetime | None = None
    containers: tuple[_ContainerMetrics, ...] = ()

    def used(self) -> dict[str, float]:
        """Return the usage of all containers together, by the name of the resource, for example `cpu`.

        Values that can't be read are left out.
        """
        used: dict[str, float] = {}
        for container in self.containers:
            for name, value in container.usage.items():
                with suppress(ValueError):
                    used[name] = used.get(name, 0.0) + float(parse_quantity(value))
        return used


decode_pod_metrics = decoder(PodMetrics)
"""Decodes the metrics of a pod. Raises msgspec.DecodeError."""


class MeasuredPod(msgspec.Struct, frozen=True):
    """A pod with its usage. `job` is empty if the pod belongs to no TFJob."""

    namespace: str
    name: str
    job: str
    usage: PodUsage


def measured_pods(client: ApiClient, namespace: str, selector: str) -> list[MeasuredPod]:
    """Return the usage of the pods that a label selector matches. If the usage can't be read, return an empty list.

    Never raises. An empty namespace means all namespaces.
    """
    try:
        page = client.list(POD_METRICS, namespace, decode_pod_metrics, ListOptions(label_selector=selector))
    except KubeError as error:
        logger.debug("no metrics: %s", error)
        return []
    return [
        MeasuredPod(
            pod.metadata.namespace,
            pod.metadata.name,
            pod.metadata.labels.get(LABEL_JOB_NAME, ""),
            _pod_usage(pod.used()),
        )
        for pod in page.items
    ]


def total(usages: Iterable[PodUsage]) -> PodUsage:
    """Return the sum of these usages."""
    return sum(usages, PodUsage())


def _pod_usage(used: Mapping[str, float]) -> PodUsage:
    gpu_memory = used.get(_GPU_MEMORY)
    memory = None if gpu_memory is None else int(gpu_memory)
    return PodUsage(used.get("cpu", 0.0), int(used.get("memory", 0)), used.get(_GPU), memory)
