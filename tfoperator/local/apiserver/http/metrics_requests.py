"""Requests for `metrics.k8s.io`: answered from a measurement, and from no store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.display import metrics_list, node_metrics, pod_metrics
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http.answers import json_answer, no_such_path
from tfoperator.local.apiserver.http.url_paths import ResourcePath
from tfoperator.local.apiserver.resource_types import METRICS, NODES, POD_METRICS, PODS, ResourceType
from tfoperator.local.apiserver.storage import Store, encode, parse_selector
from tfoperator.local.usage import Usage

UsageSource = Callable[[], Usage | None]
"""Says what is used now. May block for a measurement; None if there is none yet."""

_RESOURCES = {resource.plural: resource for resource in METRICS}


class MetricsRequests:
    """Answers them. Confined to the server's event loop; the source is asked in threads of the loop's executor."""

    def __init__(self, store: Store, source: UsageSource) -> None:
        self._store = store
        self._source = source

    @staticmethod
    def concerns(path: ResourcePath) -> bool:
        """Whether a path is in this API group."""
        return (path.group, path.version) == (POD_METRICS.group, POD_METRICS.version)

    async def answer(self, request: web.Request, path: ResourcePath) -> web.StreamResponse:
        """Answer one request. Raises StatusError."""
        resource = _RESOURCES.get(path.plural)
        if resource is None or path.subresource or not _well_placed(resource, path):
            raise no_such_path()
        if request.method not in ("GET", "HEAD") or request.query.get("watch") in ("true", "1"):
            raise errors.method_not_allowed("watch" if request.method == "GET" else request.method.lower())
        query = request.query
        selector = parse_selector(resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        usage = await asyncio.get_running_loop().run_in_executor(None, self._source)
        if usage is None:
            raise StatusError(503, "ServiceUnavailable", "nothing has been measured yet")
        found = self._metrics(usage, path)
        if not path.name:
            found = [one for one in found if selector.matches(one)]
            return json_answer(encode(metrics_list(resource, found)))
        if not found:
            raise errors.not_found(resource, path.name)
        return json_answer(encode(found[0]))

    def _metrics(self, usage: Usage, path: ResourcePath) -> list[dict[str, Any]]:
        """What is known of the objects that the path names."""
        of = PODS if path.plural == POD_METRICS.plural else NODES
        objects = [stored.obj for stored in self._store.objects(of, path.namespace)]
        if path.name:
            objects = [obj for obj in objects if obj["metadata"]["name"] == path.name]
        return pod_metrics(usage, objects) if of is PODS else node_metrics(usage, objects)


def _well_placed(resource: ResourceType, path: ResourcePath) -> bool:
    """Whether the path has a namespace where there are some, and only there: a list may be of all namespaces."""
    if not resource.namespaced:
        return not path.namespace
    return bool(path.namespace) or not path.name
