"""The embedded API server: an HTTP server on loopback.

A single thread handles all requests. A pool of threads reads logs. The server keeps everything in memory until it
stops. The server listens only on loopback. Every request except a health check needs the bearer token, because any user
of the machine can connect to a loopback port.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.local.apiserver.display.discovery import Discovery
from tfoperator.local.apiserver.display.openapi import OpenAPI
from tfoperator.local.apiserver.display.tables import table_formats
from tfoperator.local.apiserver.endpoint import ReservedEndpoint
from tfoperator.local.apiserver.errors import StatusError, bad_request
from tfoperator.local.apiserver.http.api import Api
from tfoperator.local.apiserver.http.bodies import MAX_BODY, status_answer, too_large_body
from tfoperator.local.apiserver.http.listener import TokenPlaces
from tfoperator.local.apiserver.http.metrics_requests import MetricsRequests, UsageSource
from tfoperator.local.apiserver.http.pod_logs import LogReaders
from tfoperator.local.apiserver.http.pod_streams import NO_NODE, NodeStreams, PodStreams
from tfoperator.local.apiserver.http.resource_requests import ResourceRequests
from tfoperator.local.apiserver.http.reviews import REVIEWS
from tfoperator.local.apiserver.objects.custom_resources import CustomResource
from tfoperator.local.apiserver.objects.definitions import definitions
from tfoperator.local.apiserver.objects.events import EVENT_VIEW
from tfoperator.local.apiserver.objects.strategies import builtin_strategies, system_priority_classes
from tfoperator.local.apiserver.objects.tfjobs import tfjobs
from tfoperator.local.apiserver.registry.default_accounts import DefaultAccounts
from tfoperator.local.apiserver.registry.garbage_collector import GarbageCollector
from tfoperator.local.apiserver.registry.registry import Registry, WriteOptions
from tfoperator.local.apiserver.registry.service_account_tokens import TokenIssuer
from tfoperator.local.apiserver.resource_types import (
    BUILTIN,
    CRDS,
    METRICS,
    NAMESPACES,
    PRIORITY_CLASSES,
    ResourceType,
)
from tfoperator.local.apiserver.storage.store import Store, encode
from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Refusal, Request, StreamedAnswer, WebSocketAnswer
from tfoperator.servers.http.server import HttpServer

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SHUTDOWN_SECONDS = 2.0  # for watches and logs to end cleanly
_LOG_SECONDS = 10.0  # for readers of logs to yield: a reader of stacks may wait for a process that does not respond
_LIMITS = Limits(
    head=80 << 10,  # selectors can be long
    body=MAX_BODY,
    request_seconds=30.0,
    idle_seconds=3600.0,  # longer than any client keeps an idle connection, so the client closes it first
    waits_for_readers=True,
)
"""The limits for clients that have the token. Clients without the token can send neither a body nor a
second request.
"""


class EmbeddedApiServer(HttpServer):
    """A Kubernetes API in memory, on loopback.

    Thread-safe. Call `start()` once. `stop()` may be called several times. Both return when they are complete.
    """

    def __init__(
        self,
        endpoint: ReservedEndpoint | None = None,
        *,
        clock: Clock | None = None,
        node: NodeStreams = NO_NODE,
        usage: UsageSource | None = None,
        custom_resources: Sequence[CustomResource] | None = None,
        objects: Sequence[dict[str, Any]] = (),
        history_limit: int = 2000,
        bookmark_interval: float = 60.0,
    ) -> None:
        """Initialize with the endpoint. Without an endpoint, reserve an address with a free port.

        - `node` provides the logs of containers, and the other streams of the node agent.
        - With `usage`, the server also serves `metrics.k8s.io`.
        - Without `custom_resources`, the server serves TFJobs as its only custom resource.
        - The server serves `objects` unchanged, with their UID and status.
        - The server keeps at most `history_limit` events of each resource type. A client can resume a watch only within
          this history.
        - `bookmark_interval` is in seconds.

        Raises OSError if no port is free.
        """
        self.endpoint = endpoint or ReservedEndpoint()
        """The endpoint at which clients reach this server."""
        self.url, self.token, self.certificate = self.endpoint.url, self.endpoint.token, self.endpoint.certificate
        """The URL, token and certificate of the endpoint."""
        super().__init__(
            LOOPBACK, 0, name="apiserver", limits=_LIMITS, listening=self.endpoint.socket, places=TokenPlaces()
        )
        self._clock = clock or SystemClock()
        self._usage = usage
        self._custom = tuple(custom_resources) if custom_resources is not None else tfjobs()
        self._objects = objects
        self._history_limit = history_limit
        self._bookmark_interval = bookmark_interval
        self._logs = LogReaders()
        self._pod_streams = PodStreams(node, self._logs, self._clock)
        # The server's thread sets these before the first request. Other threads use them only through `in_loop`.
        self._requests: ResourceRequests | None = None
        self._store: Store | None = None
        self._api: Api
        self._begun = False
        self._served: dict[tuple[ResourceType, str], bytes] = {}  # the given objects; used only in the loop's thread

    def kubeconfig(self) -> dict[str, Any]:
        """Return the endpoint's kubeconfig."""
        return self.endpoint.kubeconfig()

    def start(self) -> None:
        """Start to serve. Returns when the server responds to requests. Raises the error if the start fails."""
        if self._begun:
            raise RuntimeError("an embedded API server can be started only once")
        self._begun = True
        super().start()

    def stop(self) -> None:
        """End all watches and logs, complete the requests that are in progress, and wait for the threads. Idempotent.

        The method waits at most some seconds for the threads that read logs, because such a thread may hang.
        """
        super().stop()
        if self._begun:
            self._logs.join(_LOG_SECONDS)

    def compact(self) -> None:
        """Delete the history, as etcd's compaction does. Then every resourceVersion up to now has expired (410)."""
        done = threading.Event()

        def compact() -> None:
            if self._store is not None:
                self._store.compact()
            done.set()

        if self.in_loop(compact):
            done.wait(_SHUTDOWN_SECONDS)

    def show(self, objects: Sequence[dict[str, Any]]) -> None:
        """Serve these objects unchanged, in place of the `objects` of the constructor or of the last call.

        Watches get the differences. The method waits until this is complete.
        """
        done = threading.Event()

        def show() -> None:
            try:
                if self._store is not None:
                    self._put(self._store, objects)
            finally:
                done.set()

        if self.in_loop(show):
            done.wait(_SHUTDOWN_SECONDS)

    def _put(self, store: Store, objects: Sequence[dict[str, Any]]) -> None:
        before, self._served = self._served, {}
        for obj in objects:
            resource = self._kinds[obj["apiVersion"], obj["kind"]]
            key = resource.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            content = self._served[resource, key] = encode(obj)  # the store sets a version
            served_before = before.pop((resource, key), None)
            if served_before is None:
                store.create(resource, key, obj)
            elif served_before != content:
                store.update(resource, key, obj)
        for resource, key in before:
            store.delete(resource, key)

    def __enter__(self) -> EmbeddedApiServer:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    # The methods below override methods of `HttpServer`.

    def begin(self) -> None:
        """Create the store, and the objects that respond to requests.

        `HttpServer` calls this method before the first request.
        """
        self._api = self._assemble()

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the endpoint."""
        return self.endpoint.context

    def trusts(self, request: Request) -> bool:
        """Return whether the request contains the server's bearer token."""
        return self._api.has_token(request)

    async def respond(self, request: Request) -> Answer | StreamedAnswer | WebSocketAnswer:
        """Respond to one request, as `Api.answer` does."""
        return await self._api.answer(request)

    def refusal(self, refusal: Refusal) -> Answer:
        """Return the response to a request that `HttpServer` refuses, for example because its body is too large."""
        if refusal.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return status_answer(too_large_body())
        if refusal.status == HTTPStatus.BAD_REQUEST:
            return status_answer(bad_request(str(refusal)))
        return status_answer(StatusError(refusal.status, refusal.status.phrase.replace(" ", ""), str(refusal)))

    async def end_streams(self) -> None:
        """End watches, logs and commands normally, so clients do not report an error."""
        if self._requests is not None:
            self._requests.close_streams()
        await self.streams_ended(_SHUTDOWN_SECONDS)

    def _assemble(self) -> Api:
        rng = random.Random()
        resources = (*BUILTIN, *(c.resource for c in self._custom))
        strategies = builtin_strategies(rng) | {c.resource: c.strategy for c in self._custom}
        # Milliseconds since 1970: larger than any revision of an earlier server with fewer than 1000 writes a second.
        revision = int(self._clock.now().timestamp() * 1000)
        store = self._store = Store(
            resources,
            views=[EVENT_VIEW, *(c.view for c in self._custom if c.view is not None)],
            first_revision=revision,
            history_limit=self._history_limit,
        )
        registry = Registry(store, strategies, clock=self._clock, rng=rng)
        soon = asyncio.get_running_loop().call_soon
        GarbageCollector(store, registry, soon)
        DefaultAccounts(store, registry, soon)
        for name in _NAMESPACES:
            registry.create(NAMESPACES, "", {"metadata": {"name": name}}, WriteOptions())
        for priority_class in system_priority_classes():
            registry.create(PRIORITY_CLASSES, "", priority_class, WriteOptions())
        for definition in definitions(self._custom, self._clock.now()):
            registry.create(CRDS, "", definition, WriteOptions())
        self._kinds = {(resource.api_version, resource.kind): resource for resource in resources}
        self._put(store, self._objects)
        tokens = TokenIssuer()
        requests = self._requests = ResourceRequests(
            store,
            registry,
            tokens=tokens,
            tables=table_formats(resources, self._custom),
            pod_streams=self._pod_streams,
            clock=self._clock,
            rng=rng,
            bookmark_interval=self._bookmark_interval,
        )
        measured = METRICS if self._usage is not None else ()
        return Api(
            requests,
            token=self.token,
            discovery=Discovery((*resources, *REVIEWS, *measured)),
            openapi=OpenAPI(resources, self._custom),
            tokens=tokens,
            metrics=None if self._usage is None else MetricsRequests(store, self._usage),
        )
