"""The HTTP side of the API: authentication, dispatch by path and method, and every failure as a Status.

Handlers run in one event loop. A write happens between two awaits (its body is read before, its answer is sent
after), so no lock is needed and a client that hangs up can't leave half of one behind.
"""

from __future__ import annotations

import hmac
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from tfoperator.clock import Clock
from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.bodies import (
    decode_delete_options,
    decode_object,
    too_large_body,
    write_options,
)
from tfoperator.local.apiserver.deletion import DeleteOptions
from tfoperator.local.apiserver.discovery import VERSION, Discovery
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.kinds import PODS, ResourceType
from tfoperator.local.apiserver.listing import ListOptions, list_page
from tfoperator.local.apiserver.logs import LogPump, LogReader, LogRequest
from tfoperator.local.apiserver.openapi import OpenAPI
from tfoperator.local.apiserver.patch import Patcher, patcher
from tfoperator.local.apiserver.paths import ResourcePath, parse_path
from tfoperator.local.apiserver.pod_subresources import bind, evict
from tfoperator.local.apiserver.registry import Registry, Written
from tfoperator.local.apiserver.representation import Representation, negotiate, representation
from tfoperator.local.apiserver.scale import rescaled, scale_of
from tfoperator.local.apiserver.store import Store, StoredObject, encode
from tfoperator.local.apiserver.tables import TableFormat
from tfoperator.local.apiserver.watch import Watcher, check_watch_options, serve

__all__ = ["Api"]

logger = logging.getLogger(__name__)

_JSON = "application/json"
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_DEFAULT_WATCH_SECONDS = (1800, 3600)  # kube-apiserver draws from one to two times its --min-request-timeout


class Api:
    """Answers requests. Confined to the server's event loop, but for `set_log_reader`."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        token: str,
        tables: Mapping[ResourceType, TableFormat],
        discovery: Discovery,
        openapi: OpenAPI,
        logs: LogPump,
        log_reader: LogReader | None,
        clock: Clock,
        rng: random.Random,
        bookmark_interval: float,
    ) -> None:
        """Every request but a health check has to carry `token`; `bookmark_interval` is in seconds."""
        self._store = store
        self._registry = registry
        self._authorization = f"Bearer {token}".encode()
        self._tables = tables
        self._discovery = discovery
        self._openapi = openapi
        self._logs = logs
        self.log_reader = log_reader
        self._clock = clock
        self._rng = rng
        self._bookmark_interval = bookmark_interval
        self._by_path = {(r.group, r.version, r.plural): r for r in registry.resources}
        self._watchers: set[Watcher] = set()

    def close_watches(self) -> None:
        """End every watch cleanly."""
        for watcher in tuple(self._watchers):
            watcher.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request; never raises, and never shows a traceback."""
        try:
            return await self._dispatch(request)
        except StatusError as error:
            return _status_response(error)
        except web.HTTPRequestEntityTooLarge:
            return _status_response(too_large_body())
        except RecursionError:
            return _status_response(errors.bad_request("the object provided is nested too deeply"))
        except (ConnectionError, web.HTTPException):
            raise  # the client is gone, or aiohttp has its own answer
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return _status_response(StatusError(500, "InternalError", "Internal error occurred: see the server's log"))

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in _HEALTH:
            return web.Response(text="ok")
        self._authenticate(request)
        place = parse_path(path)
        if place is None:
            return self._document(request, path)
        if (place.group, place.version, place.plural) == ("", "v1", "bindings"):
            return await self._bind(request, place.namespace, "")
        resource = self._by_path.get((place.group, place.version, place.plural))
        scoped = resource is not None and (resource.namespaced or not place.namespace)
        if resource is None or not scoped or (resource.namespaced and place.name and not place.namespace):
            raise _no_such_path()
        if place.subresource:
            return await self._subresource(request, resource, place)
        if place.name:
            return await self._object(request, resource, place)
        return await self._collection(request, resource, place)

    def _authenticate(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._authorization):
            raise StatusError(401, "Unauthorized", "Unauthorized")

    def _document(self, request: web.Request, path: str) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            raise _no_such_path()
        accept = request.headers.get("Accept", "")
        if path == "/version":
            return _json(encode(VERSION))
        if path == "/":
            return _json(encode({"paths": [*self._discovery.paths(), "/healthz", "/openapi/v3", "/version"]}))
        if path.startswith("/openapi/"):
            if "json" not in accept and "*/*" not in accept and accept:
                raise StatusError(406, "NotAcceptable", "only application/json is served here")
            document = self._openapi.document(path)
            if document is not None:
                return _json(encode(document))
        described = self._discovery.document(path, accept)
        if described is None:
            raise _no_such_path()
        return _json(encode(described[0]), content_type=described[1])

    async def _collection(
        self, request: web.Request, resource: ResourceType, place: ResourcePath
    ) -> web.StreamResponse:
        query = request.query
        match request.method:
            case "GET":
                options = ListOptions.parse(resource, query)
                form = self._form(request, resource)
                if query.get("watch") in ("true", "1"):
                    return await self._watch(request, resource, place.namespace, options, form)
                return _json(form.many(list_page(self._store, resource, place.namespace, options)))
            case "POST" if place.namespace or not resource.namespaced:
                body = decode_object(_content_type(request), await request.read())
                written = self._registry.create(resource, place.namespace, body, write_options(query))
                return self._written(request, resource, written, 201)
            case "DELETE":
                options = ListOptions.parse(resource, query)
                deletion = decode_delete_options(_content_type(request), await request.read(), query)
                return self._delete_collection(request, resource, place.namespace, options, deletion)
        raise errors.method_not_allowed(request.method.lower())

    async def _object(self, request: web.Request, resource: ResourceType, place: ResourcePath) -> web.StreamResponse:
        namespace, name = place.namespace, place.name
        match request.method:
            case "GET":
                return _json(self._form(request, resource).one(self._registry.get(resource, namespace, name)))
            case "PUT" | "PATCH":
                return await self._update(request, resource, place)
            case "DELETE":
                options = decode_delete_options(_content_type(request), await request.read(), request.query)
                written = self._registry.delete(resource, namespace, name, options)
                if written.removed and not resource.returns_deleted:
                    return _json(encode(_deleted_status(resource, written.stored)))
                return self._written(request, resource, written, 200)
        raise errors.method_not_allowed(request.method.lower())

    async def _update(self, request: web.Request, resource: ResourceType, place: ResourcePath) -> web.StreamResponse:
        body, content_type = await request.read(), _content_type(request)
        options = write_options(request.query)
        patch = request.method == "PATCH"
        change: Callable[[StoredObject], dict[str, Any]]
        if not patch:
            change = _replace_by(decode_object(content_type, body))
        else:
            change = _apply(patcher(resource, content_type, body))
        written = self._registry.update(
            resource, place.namespace, place.name, change, options, subresource=place.subresource, patch=patch
        )
        return self._written(request, resource, written, 200)

    async def _subresource(
        self, request: web.Request, resource: ResourceType, place: ResourcePath
    ) -> web.StreamResponse:
        if place.subresource not in resource.subresources:
            raise _no_such_path()
        match place.subresource, request.method:
            case "status", "GET":
                stored = self._registry.get(resource, place.namespace, place.name)
                return _json(self._form(request, resource).one(stored))
            case "status", "PUT" | "PATCH":
                return await self._update(request, resource, place)
            case "scale", "GET":
                stored = scale_of(resource, self._registry.get(resource, place.namespace, place.name))
                return _json(self._form(request, resource).one(stored))
            case "scale", "PUT" | "PATCH":
                return await self._rescale(request, resource, place)
            case "finalize", "PUT":
                body = decode_object(_content_type(request), await request.read())
                return self._written(request, resource, self._registry.finalize_namespace(place.name, body), 200)
            case "log", "GET":
                return await self._log(request, place)
            case "binding", "POST":
                return await self._bind(request, place.namespace, place.name)
            case "eviction", "POST":
                body = decode_object(_content_type(request), await request.read())
                evict(self._registry, place.namespace, place.name, body)
                return _json(encode(_success(201)), status=201)
        raise errors.method_not_allowed(request.method.lower())

    async def _rescale(self, request: web.Request, resource: ResourceType, place: ResourcePath) -> web.StreamResponse:
        body, content_type = await request.read(), _content_type(request)
        patch = request.method == "PATCH"
        change = patcher(resource, content_type, body) if patch else _replace_by(decode_object(content_type, body))
        written = self._registry.update(
            resource,
            place.namespace,
            place.name,
            lambda current: rescaled(resource, current, change, patch=patch),
            write_options(request.query),
        )
        return self._written(request, resource, Written(scale_of(resource, written.stored), written.warnings), 200)

    async def _bind(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        if request.method != "POST":
            raise errors.method_not_allowed(request.method.lower())
        body = decode_object(_content_type(request), await request.read())
        bind(self._registry, namespace, name, body, self._clock.now())
        return _json(encode(_success(201)), status=201)

    def _delete_collection(
        self,
        request: web.Request,
        resource: ResourceType,
        namespace: str,
        options: ListOptions,
        deletion: DeleteOptions,
    ) -> web.Response:
        if not resource.delete_collection or (resource.namespaced and not namespace):
            raise errors.method_not_allowed("delete")
        page = list_page(self._store, resource, namespace, options)
        for stored in page.items:
            metadata = stored.metadata
            self._registry.delete(resource, metadata.get("namespace", ""), metadata["name"], deletion)
        return _json(self._form(request, resource).many(page))

    def _form(self, request: web.Request, resource: ResourceType) -> Representation:
        wanted = negotiate(request.headers.get("Accept", ""))
        include = request.query.get("includeObject", "Metadata")
        return representation(wanted, resource, self._tables[resource], self._clock, include)

    def _written(self, request: web.Request, resource: ResourceType, written: Written, status: int) -> web.Response:
        response = _json(self._form(request, resource).one(written.stored), status=status)
        for warning in written.warnings:
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response

    async def _watch(
        self,
        request: web.Request,
        resource: ResourceType,
        namespace: str,
        options: ListOptions,
        form: Representation,
    ) -> web.StreamResponse:
        check_watch_options(options)
        watcher = Watcher(self._store, resource, namespace, options, form)
        self._watchers.add(watcher)
        response = web.StreamResponse(headers={"Content-Type": _JSON, "Cache-Control": "no-cache, private"})
        try:
            await response.prepare(request)
            timeout = options.timeout_seconds or self._rng.uniform(*_DEFAULT_WATCH_SECONDS)
            await serve(watcher, response, timeout=timeout, bookmark_interval=self._bookmark_interval)
            return response
        except ConnectionError:
            return response  # the client is gone, as clients of watches go
        finally:
            watcher.close()
            self._watchers.discard(watcher)

    async def _log(self, request: web.Request, place: ResourcePath) -> web.StreamResponse:
        stored = self._registry.get(PODS, place.namespace, place.name)
        wanted = LogRequest.parse(stored, request.query)
        if self.log_reader is None:
            raise StatusError(503, "ServiceUnavailable", "no node agent serves logs")
        stream = await self._logs.open(self.log_reader, wanted)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        try:
            await response.prepare(request)
            await stream.send(response)
        except ConnectionError:
            pass  # the client has read enough
        finally:
            stream.close()
        return response


def _replace_by(new: dict[str, Any]) -> Callable[[object], dict[str, Any]]:
    return lambda _current: new


def _apply(patch: Patcher) -> Callable[[StoredObject], dict[str, Any]]:
    return lambda current: patch(current.copy())


def _content_type(request: web.Request) -> str:
    """The media type that the client gave, lower-case and without parameters; empty if it gave none."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _json(data: bytes, *, status: int = 200, content_type: str = _JSON) -> web.Response:
    return web.Response(body=data, status=status, headers={"Content-Type": content_type})


def _status_response(error: StatusError) -> web.Response:
    response = _json(encode(error.body()), status=error.code)
    response.headers.update(error.headers)
    return response


def _no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def _success(code: int) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}


def _deleted_status(resource: ResourceType, stored: StoredObject) -> dict[str, Any]:
    details = {"name": stored.metadata["name"], "kind": resource.plural, "uid": stored.metadata["uid"]}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
