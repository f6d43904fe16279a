"""The entry point of requests: authentication, health, documents, and every error as a Status."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.display.discovery import VERSION, Discovery
from tfoperator.local.apiserver.display.openapi import OPENAPI_V2_TYPE, OpenAPI, openapi_v2_protobuf
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http.bodies import (
    JSON,
    json_answer,
    no_such_path,
    read_object,
    status_answer,
    too_large_body,
)
from tfoperator.local.apiserver.http.metrics_requests import MetricsRequests
from tfoperator.local.apiserver.http.resource_requests import ResourceRequests
from tfoperator.local.apiserver.http.reviews import review_at, reviewed
from tfoperator.local.apiserver.http.url_paths import parse_path
from tfoperator.local.apiserver.registry.service_account_tokens import KEYS_PATH, KEYS_TYPE, TokenIssuer
from tfoperator.local.apiserver.resource_types import ResourceType
from tfoperator.local.apiserver.storage.store import encode

logger = logging.getLogger(__name__)

_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})


class Api:
    """Answers requests. Confined to the server's event loop."""

    def __init__(
        self,
        resources: ResourceRequests,
        *,
        token: str,
        trust: Callable[[Any], None],
        discovery: Discovery,
        openapi: OpenAPI,
        tokens: TokenIssuer,
        metrics: MetricsRequests | None = None,
    ) -> None:
        """Require `token` in all requests but health checks; call `trust` with the address of each client with it."""
        self._metrics = metrics
        self._trust = trust
        self._token = token
        self._resources = resources
        self._authorization = f"Bearer {token}".encode()
        self._discovery = discovery
        self._openapi = openapi
        self._tokens = tokens

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, the last of its connection if it lacks the token; never show a traceback.

        The loop has a turn before that: a client that sends many requests and leaves would cause a line of asyncio for
        each answer, as its connection could not be seen to be lost.
        """
        await asyncio.sleep(0)
        answer = await self._answer(request)
        if not self._has_token(request):
            answer.force_close()
        return answer

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._dispatch(request)
        except StatusError as error:
            return status_answer(error)
        except web.HTTPRequestEntityTooLarge:
            return status_answer(too_large_body())
        except RecursionError:
            return status_answer(errors.bad_request("the object provided is nested too deeply"))
        except web.RequestPayloadError:
            return status_answer(errors.bad_request("the body is not what its headers announce"))
        except (ConnectionError, web.HTTPException):
            raise  # the client is gone, or aiohttp has its own response
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return status_answer(StatusError(500, "InternalError", "Internal error occurred: see the server's log"))

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in _HEALTH_PATHS:
            return web.Response(text="ok")
        self._authenticate(request)
        place = parse_path(path)
        if place is None:
            return self._document(request, path)
        review = review_at(place)
        if review is not None:
            return await self._review(request, review)
        if self._metrics is not None and self._metrics.concerns(place):
            return await self._metrics.answer(request, place)
        return await self._resources.answer(request, place)

    def _authenticate(self, request: web.Request) -> None:
        if not self._has_token(request):
            raise StatusError(401, "Unauthorized", "Unauthorized")
        if request.transport is not None:
            self._trust(request.transport.get_extra_info("peername"))

    def _has_token(self, request: web.Request) -> bool:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._authorization)

    async def _review(self, request: web.Request, review: ResourceType) -> web.Response:
        body = await read_object(request) if request.method == "POST" else {}
        return json_answer(encode(reviewed(review, request.method, body, self._token)), status=201)

    def _document(self, request: web.Request, path: str) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            raise no_such_path()
        accept = request.headers.get("Accept", "")
        if path in ("/version", "/version/"):  # generated clients request the second
            return json_answer(encode(VERSION))
        if path == "/":
            return json_answer(encode({"paths": [*self._discovery.paths(), "/healthz", "/openapi/v3", "/version"]}))
        if path == "/openapi/v2" and OPENAPI_V2_TYPE in accept:
            return json_answer(openapi_v2_protobuf(), content_type=OPENAPI_V2_TYPE.replace("@", "."))
        if path.startswith("/openapi/"):
            if "json" not in accept and "*/*" not in accept and accept:
                raise StatusError(406, "NotAcceptable", "only application/json is served here")
            document = self._openapi.document(path)
            if document is not None:
                return json_answer(encode(document))
        published = self._tokens.document(path)
        if published is not None:
            return json_answer(encode(published), content_type=KEYS_TYPE if path == KEYS_PATH else JSON)
        described = self._discovery.document(path, accept)
        if described is None:
            raise no_such_path()
        return json_answer(encode(described[0]), content_type=described[1])
