"""Requests for `metrics.k8s.io/v1beta1`. The responses come from a measurement, in metrics-server's format.

GPUs are an addition of this project: metrics-server does not report GPUs, and clients ignore resources that they do not
support. `nvidia.com/gpu` is the number of busy devices of the container. `nvidia.com/gpu-memory` is the memory in use
on its devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfoperator.kube.views.objects import timestamp
from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http.api_request import ApiRequest
from tfoperator.local.apiserver.http.bodies import json_answer, no_such_path
from tfoperator.local.apiserver.http.url_paths import ResourcePath
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.resource_types import METRICS, NODE_METRICS, NODES, POD_METRICS, PODS, ResourceType
from tfoperator.local.apiserver.storage.selectors import parse_selector
from tfoperator.local.apiserver.storage.store import Store, encode
from tfoperator.local.usage import ContainerUsage, Usage
from tfoperator.servers.http.messages import Answer

UsageSource = Callable[[], Usage | None]
"""Returns the current usage of the machine and its containers. The function may block until a measurement is complete.
It returns None if there is no measurement yet.
"""

_RESOURCES = {resource.plural: resource for resource in METRICS}


class MetricsRequests:
    """Responds to metrics requests.

    `source` measures the usage. Threads of the event loop's executor call it, because it may block. Use this class only
    in the server's event loop.
    """

    def __init__(self, store: Store, source: UsageSource) -> None:
        self._store = store
        self._source = source

    @staticmethod
    def concerns(path: ResourcePath) -> bool:
        """Return whether a path is in `metrics.k8s.io/v1beta1`."""
        return (path.group, path.version) == (POD_METRICS.group, POD_METRICS.version)

    async def answer(self, request: ApiRequest, path: ResourcePath) -> Answer:
        """Respond to one request. Raises StatusError."""
        resource = _RESOURCES.get(path.plural)
        if resource is None or path.subresource or not _well_placed(resource, path):
            raise no_such_path(request.path)
        if request.method not in ("GET", "HEAD") or request.query.get("watch") in ("true", "1"):
            raise errors.method_not_allowed()
        query = request.query
        selector = parse_selector(resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        usage = await asyncio.get_running_loop().run_in_executor(None, self._source)
        if usage is None:
            raise StatusError(503, "ServiceUnavailable", "no usage has been measured yet")
        metrics = self._metrics(usage, path)
        if not path.name:
            metrics = [item for item in metrics if selector.matches(item)]
            head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": {}}
            return json_answer(encode({**head, "items": metrics}))
        if not metrics:
            raise errors.not_found(resource, path.name)
        return json_answer(encode(metrics[0]))

    def _metrics(self, usage: Usage, path: ResourcePath) -> list[dict[str, Any]]:
        """Return the metrics of the objects that the path names."""
        of = PODS if path.plural == POD_METRICS.plural else NODES
        objects = [stored.obj for stored in self._store.objects(of, path.namespace)]
        if path.name:
            objects = [obj for obj in objects if obj["metadata"]["name"] == path.name]
        return pod_metrics(usage, objects) if of is PODS else node_metrics(usage, objects)


def _well_placed(resource: ResourceType, path: ResourcePath) -> bool:
    """Return whether the path fits the scope of the resource.

    A path for nodes must have no namespace, and a path for a single pod must have a namespace. A list of pods may have
    a namespace, or be a list of all namespaces.
    """
    if not resource.namespaced:
        return not path.namespace
    return bool(path.namespace) or not path.name


def pod_metrics(usage: Usage, pods: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return the metrics of each pod with a measured container, in the order of `pods`."""
    by_uid: dict[str, list[ContainerUsage]] = {}
    for container in usage.containers:
        by_uid.setdefault(container.pod_uid, []).append(container)
    metrics = []
    for pod in pods:
        used = by_uid.get(pod["metadata"]["uid"])
        if used is None:
            continue
        containers = [{"name": container.name.container, "usage": _usage(container)} for container in used]
        metrics.append({**_head(POD_METRICS, pod, usage), "containers": containers})
    return metrics


def node_metrics(usage: Usage, nodes: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return the metrics of each node. The only node is this machine, with everything that runs on it."""
    used = {"cpu": _cpu(usage.machine_cpu), "memory": _memory(usage.machine_memory)}
    return [{**_head(NODE_METRICS, node, usage), "usage": used} for node in nodes]


def _head(resource: ResourceType, of: Mapping[str, Any], usage: Usage) -> Json:
    metadata = {key: of["metadata"][key] for key in ("name", "namespace", "labels") if of["metadata"].get(key)}
    taken = timestamp(usage.taken)
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {**metadata, "creationTimestamp": taken},
        "timestamp": taken,
        "window": f"{usage.window:.3f}s",
    }


def _usage(container: ContainerUsage) -> dict[str, str]:
    used = {"cpu": _cpu(container.cpu), "memory": _memory(container.memory)}
    if container.gpu is not None:
        used |= {
            "nvidia.com/gpu": f"{round(container.gpu.busy * 1000)}m",
            "nvidia.com/gpu-memory": _memory(container.gpu.memory),
        }
    return used


def _cpu(cores: float) -> str:
    return f"{round(cores * 1e9)}n"


def _memory(size: int) -> str:
    return f"{size // 1024}Ki"
