"""Requests for resources: collections, objects and their subresources.

A write is a single step of the event loop: the server reads the body before this step, and sends the response after it.
So a write needs no lock, and a client that disconnects can't leave an incomplete write.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.display.representation import Representation, negotiate, representation
from tfoperator.local.apiserver.display.tables import TableFormat
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http.api_request import ApiRequest
from tfoperator.local.apiserver.http.bodies import (
    JSON,
    created,
    decode_configuration,
    decode_delete_options,
    decode_object,
    deleted,
    json_answer,
    no_such_path,
    object_in,
    write_options,
)
from tfoperator.local.apiserver.http.pod_streams import PodStreams, check_host, no_ports
from tfoperator.local.apiserver.http.url_paths import ResourcePath
from tfoperator.local.apiserver.http.watch_streams import Watcher, check_watch_options, lines_of
from tfoperator.local.apiserver.http.websockets import opens_websocket, refusal_of_watch, watch_answer
from tfoperator.local.apiserver.members import query_flag
from tfoperator.local.apiserver.registry.patch import APPLY, Patcher, apply_configuration, patcher
from tfoperator.local.apiserver.registry.registry import Registry, WriteOptions, WriteResult
from tfoperator.local.apiserver.registry.service_account_tokens import TokenIssuer
from tfoperator.local.apiserver.registry.subresources import bind, evict, rescaled, scale_of
from tfoperator.local.apiserver.resource_types import PODS, ResourceType
from tfoperator.local.apiserver.storage.listing import ListRequest, list_page
from tfoperator.local.apiserver.storage.store import Store, StoredObject, encode
from tfoperator.servers.http.messages import Answer, StreamedAnswer, WebSocketAnswer

_DEFAULT_WATCH_SECONDS = (1800, 3600)  # kube-apiserver draws from one to two times its --min-request-timeout

_ONLY_FOR_APPLY = "may not be specified for non-apply patch"

_NOT_CACHED = (("Cache-Control", "no-cache, private"),)


_VERBS = {"DELETE": "delete", "GET": "get", "PATCH": "patch", "POST": "create", "PUT": "update"}


class _Call(NamedTuple):
    """One request, with its parsed path and the resource type in this path."""

    request: ApiRequest
    resource: ResourceType
    path: ResourcePath

    @property
    def key(self) -> tuple[ResourceType, str, str]:
        return self.resource, self.path.namespace, self.path.name

    @property
    def options(self) -> WriteOptions:
        return write_options(self.request.method, self.request.query, self.request.headers.get("user-agent", ""))

    @property
    def unsupported(self) -> StatusError:
        verb = _VERBS.get(self.request.method)
        if self.resource.custom and self.path.name and verb is not None:
            return errors.verb_not_supported(self.resource, verb)
        return errors.method_not_allowed()


class ResourceRequests:
    """Responds to requests for resources. Use it only in the server's event loop."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        tokens: TokenIssuer,
        tables: Mapping[ResourceType, TableFormat],
        pod_streams: PodStreams,
        clock: Clock,
        rng: random.Random,
        bookmark_interval: float,
    ) -> None:
        """Initialize. `bookmark_interval` is in seconds."""
        self._store = store
        self._registry = registry
        self._tokens = tokens
        self._tables = tables
        self._pod_streams = pod_streams
        self._clock = clock
        self._rng = rng
        self._bookmark_interval = bookmark_interval
        self._by_path = {(r.group, r.version, r.plural): r for r in registry.resources}
        self._watchers: set[Watcher] = set()

    def close_streams(self) -> None:
        """End all watches normally, and end all commands of `kubectl exec`."""
        for watcher in tuple(self._watchers):
            watcher.close()
        self._pod_streams.close()

    async def answer(self, request: ApiRequest, path: ResourcePath) -> Answer | StreamedAnswer | WebSocketAnswer:
        """Respond to one request. Raises StatusError."""
        if (path.group, path.version, path.plural) == ("", "v1", "bindings"):
            return self._bind(_Call(request, PODS, path))
        resource = self._by_path.get((path.group, path.version, path.plural))
        scoped = resource is not None and (resource.namespaced or not path.namespace)
        if resource is None or not scoped or (resource.namespaced and path.name and not path.namespace):
            raise no_such_path(request.path)
        call = _Call(request, resource, path)
        if resource.read_only and request.method not in ("GET", "HEAD"):
            raise call.unsupported
        if path.subresource:
            return await self._subresource(call)
        return self._object(call) if path.name else self._collection(call)

    def _collection(self, call: _Call) -> Answer | StreamedAnswer | WebSocketAnswer:
        request, resource, path = call
        match request.method:
            case "GET" if query_flag(request.query, "watch"):
                return self._watch(call)
            case "GET":
                options = ListRequest.parse(resource, request.query)
                return json_answer(self._form(call).many(list_page(self._store, resource, path.namespace, options)))
            case "POST" if path.namespace or not resource.namespaced:
                body = object_in(request)
                written = self._registry.create(resource, path.namespace, body, call.options)
                return self._written(call, written, 201)
            case "DELETE" if path.namespace or not resource.namespaced:
                return self._delete_collection(call)
            case "POST" | "DELETE" if resource.custom:
                raise no_such_path(request.path)
            case "PUT" | "PATCH" if resource.custom:
                raise errors.bad_request("name must be provided")
        raise call.unsupported

    def _object(self, call: _Call) -> Answer:
        request = call.request
        match request.method:
            case "GET":
                return self._shown(call, self._registry.get(*call.key))
            case "PUT" | "PATCH":
                return self._update(call)
            case "DELETE":
                options = decode_delete_options(request.media_type, request.body, request.query)
                written = self._registry.delete(*call.key, options)
                if written.removed and not call.resource.returns_deleted:
                    return deleted(call.resource, written.stored)
                return self._written(call, written)
        raise call.unsupported

    async def _subresource(self, call: _Call) -> Answer | StreamedAnswer | WebSocketAnswer:
        request, resource, path = call
        if (path.subresource, request.method) == ("stacks", "GET") and resource is PODS:
            # Our own addition, not in discovery: Kubernetes' API server has no such subresource.
            return await self._pod_streams.send(request, self._registry.get(*call.key), "stacks")
        if path.subresource not in resource.subresources:
            raise errors.not_found(resource, path.name) if resource.custom else errors.no_such_resource()
        match path.subresource, request.method:
            case "status", "GET":
                return self._shown(call, self._registry.get(*call.key))
            case "scale", "GET":
                return self._shown(call, scale_of(resource, self._registry.get(*call.key)))
            case "status" | "scale", "PUT" | "PATCH":
                return self._update(call)
            case "finalize", "PUT":
                return self._written(call, self._registry.finalize_namespace(path.name, object_in(request)))
            case "token", "POST":
                body = object_in(request)
                issued = self._tokens.issue(self._registry, path.namespace, path.name, body, self._clock.now())
                return json_answer(encode(issued), status=201)
        return await self._pod_subresource(call)

    async def _pod_subresource(self, call: _Call) -> Answer | StreamedAnswer | WebSocketAnswer:
        request, _, path = call
        match path.subresource, request.method:
            case "log", "GET":
                return await self._pod_streams.send(request, self._registry.get(*call.key), "log")
            case "binding", _:
                return self._bind(call)
            case "exec", "GET" | "POST":
                return self._pod_streams.execute(request, self._registry.get(*call.key))
            case "attach", "GET" | "POST":
                return await self._pod_streams.attach(request, self._registry.get(*call.key))
            case "portforward", "GET" | "POST":
                check_host(self._registry.get(*call.key))
                raise no_ports()
            case "eviction", "POST":
                evict(self._registry, path.namespace, path.name, object_in(request), self._clock.now())
                return created()
        raise call.unsupported

    def _update(self, call: _Call) -> Answer:
        """Handle PUT or PATCH of an object, or of its status or Scale."""
        request, resource, path = call
        body, media_type = request.body, request.media_type
        if request.method == "PATCH" and media_type != APPLY and "force" in request.query:
            raise errors.invalid_options("PatchOptions", errors.forbidden("force", _ONLY_FOR_APPLY))
        if request.method == "PATCH" and media_type == APPLY and not path.subresource:
            return self._apply(call, body)
        options = call.options
        patch, scale = request.method == "PATCH", path.subresource == "scale"
        change = patcher(resource, media_type, body) if patch else _replace_by(decode_object(media_type, body))

        def new(current: StoredObject) -> dict[str, Any]:
            return rescaled(resource, current, change, patch=patch) if scale else change(current.copy())

        subresource = "" if scale else path.subresource
        written = self._registry.update(*call.key, new, options, subresource=subresource, patch=patch)
        return self._written(
            call, WriteResult(scale_of(resource, written.stored), written.warnings) if scale else written
        )

    def _apply(self, call: _Call, body: bytes) -> Answer:
        options = call.options
        if "fieldManager" not in call.request.query:
            options = msgspec.structs.replace(options, manager="")  # an apply must name its manager
        written, created = apply_configuration(self._registry, *call.key, decode_configuration(body), options)
        return self._written(call, written, 201 if created else 200)

    def _bind(self, call: _Call) -> Answer:
        if call.request.method != "POST":
            raise call.unsupported
        body = object_in(call.request)
        bind(self._registry, call.path.namespace, call.path.name, body, self._clock.now())
        return created()

    def _delete_collection(self, call: _Call) -> Answer:
        request, resource, path = call
        options = ListRequest.parse(resource, request.query)
        deletion = decode_delete_options(request.media_type, request.body, request.query)
        if not resource.delete_collection:
            raise call.unsupported
        page = list_page(self._store, resource, path.namespace, options)
        for stored in page.items:
            metadata = stored.metadata
            self._registry.delete(resource, metadata.get("namespace", ""), metadata["name"], deletion)
        return json_answer(self._form(call).many(page))

    def _form(self, call: _Call) -> Representation:
        wanted = negotiate(call.request.headers.get("accept", ""))
        include = call.request.query.get("includeObject", "Metadata")
        return representation(wanted, call.resource, self._tables[call.resource], self._clock, include)

    def _shown(self, call: _Call, stored: StoredObject) -> Answer:
        return json_answer(self._form(call).one(stored))

    def _written(self, call: _Call, written: WriteResult, status: int = 200) -> Answer:
        return json_answer(self._form(call).one(written.stored), status=status, warnings=written.warnings)

    def _watch(self, call: _Call) -> Answer | StreamedAnswer | WebSocketAnswer:
        request, resource, path = call
        options = ListRequest.parse(resource, request.query)
        form = self._form(call)
        check_watch_options(options)
        in_websocket = opens_websocket(request)
        refusal = refusal_of_watch(request) if in_websocket else None
        if refusal is not None:
            return refusal
        watcher = Watcher(self._store, resource, path.namespace, options, form)
        self._watchers.add(watcher)
        timeout = options.timeout_seconds or self._rng.uniform(*_DEFAULT_WATCH_SECONDS)
        lines = lines_of(watcher, timeout=timeout, bookmark_interval=self._bookmark_interval)
        over = partial(self._forget, watcher)
        return watch_answer(request, lines, over) if in_websocket else StreamedAnswer(lines, JSON, _NOT_CACHED, over)

    def _forget(self, watcher: Watcher) -> None:
        watcher.close()
        self._watchers.discard(watcher)


def _replace_by(new: dict[str, Any]) -> Patcher:
    return lambda _current: new
