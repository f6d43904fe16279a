"""`metrics.k8s.io/v1beta1`: what pods and nodes use, in the form in which metrics-server says it. Pure.

GPUs are ours to add: metrics-server knows none, and clients add up the resources that they know. `nvidia.com/gpu` is
how many of the container's devices are busy, `nvidia.com/gpu-memory` what of their memory is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfoperator.kube.objects import timestamp
from tfoperator.local.apiserver.resource_types import NODE_METRICS, POD_METRICS, ResourceType
from tfoperator.local.usage import ContainerUsage, Usage

_Dict = dict[str, Any]


def pod_metrics(usage: Usage, pods: Iterable[Mapping[str, Any]]) -> list[_Dict]:
    """One for each of these pods that has a container that was measured, in their order."""
    by_uid: dict[str, list[ContainerUsage]] = {}
    for one in usage.containers:
        by_uid.setdefault(one.pod_uid, []).append(one)
    found = []
    for pod in pods:
        used = by_uid.get(pod["metadata"]["uid"])
        if used is None:
            continue
        containers = [{"name": one.name.container, "usage": _usage(one)} for one in used]
        found.append({**_head(POD_METRICS, pod, usage), "containers": containers})
    return found


def node_metrics(usage: Usage, nodes: Iterable[Mapping[str, Any]]) -> list[_Dict]:
    """One for each node, of which there is one: this machine, with all that runs on it."""
    used = {"cpu": _cpu(usage.machine_cpu), "memory": _memory(usage.machine_memory)}
    return [{**_head(NODE_METRICS, node, usage), "usage": used} for node in nodes]


def metrics_list(resource: ResourceType, items: list[_Dict]) -> _Dict:
    """A list of them."""
    return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": {}, "items": items}


def _head(resource: ResourceType, of: Mapping[str, Any], usage: Usage) -> _Dict:
    metadata = {key: of["metadata"][key] for key in ("name", "namespace", "labels") if of["metadata"].get(key)}
    taken = timestamp(usage.taken)
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {**metadata, "creationTimestamp": taken},
        "timestamp": taken,
        "window": f"{usage.window:.3f}s",
    }


def _usage(one: ContainerUsage) -> dict[str, str]:
    used = {"cpu": _cpu(one.cpu), "memory": _memory(one.memory)}
    if one.gpu is not None:
        used |= {"nvidia.com/gpu": f"{round(one.gpu.busy * 1000)}m", "nvidia.com/gpu-memory": _memory(one.gpu.memory)}
    return used


def _cpu(cores: float) -> str:
    return f"{round(cores * 1e9)}n"


def _memory(size: int) -> str:
    return f"{size // 1024}Ki"
