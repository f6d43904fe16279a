"""The entry point of requests.

`Api` authenticates clients, serves health checks and documents, and converts every error to a Status.
"""

from __future__ import annotations

import hmac
import logging

from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.display.discovery import VERSION, Discovery
from tfoperator.local.apiserver.display.openapi import OPENAPI_V2_TYPE, OpenAPI, openapi_v2_protobuf
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http.api_request import ApiRequest, api_request
from tfoperator.local.apiserver.http.bodies import JSON, json_answer, no_such_path, object_in, status_answer
from tfoperator.local.apiserver.http.metrics_requests import MetricsRequests
from tfoperator.local.apiserver.http.resource_requests import ResourceRequests
from tfoperator.local.apiserver.http.reviews import review_at, reviewed
from tfoperator.local.apiserver.http.url_paths import parse_path
from tfoperator.local.apiserver.registry.service_account_tokens import KEYS_PATH, KEYS_TYPE, TokenIssuer
from tfoperator.local.apiserver.resource_types import ResourceType
from tfoperator.local.apiserver.storage.store import encode
from tfoperator.servers.http.messages import Answer, Request, StreamedAnswer, WebSocketAnswer

logger = logging.getLogger(__name__)

_HEALTH_CHECKS = ("healthz", "livez", "readyz")


class Api:
    """Answers the requests of clients. Use it only in the server's event loop."""

    def __init__(
        self,
        resources: ResourceRequests,
        *,
        token: str,
        discovery: Discovery,
        openapi: OpenAPI,
        tokens: TokenIssuer,
        metrics: MetricsRequests | None = None,
    ) -> None:
        """Require `token` in all requests but health checks."""
        self._metrics = metrics
        self._token = token
        self._resources = resources
        self._authorization = f"Bearer {token}".encode()
        self._discovery = discovery
        self._openapi = openapi
        self._tokens = tokens

    def has_token(self, request: Request) -> bool:
        """Return whether the request contains the server's token."""
        given = request.headers.get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, self._authorization)

    async def answer(self, request: Request) -> Answer | StreamedAnswer | WebSocketAnswer:
        """Respond to one request. The method never raises: an error becomes a response with a Status."""
        try:
            return await self._dispatch(request)
        except StatusError as error:
            return status_answer(error)
        except RecursionError:
            return status_answer(errors.bad_request("the object provided is nested too deeply"))
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return status_answer(StatusError(500, "InternalError", "Internal error occurred: see the server's log"))

    async def _dispatch(self, request: Request) -> Answer | StreamedAnswer | WebSocketAnswer:
        path = request.path
        health = _health(request)
        if health is not None:
            return health
        if not request.trusted:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        asked, place = api_request(request), parse_path(path)
        if place is None:
            return self._document(asked, path)
        review = review_at(place)
        if review is not None:
            return self._review(asked, review)
        if self._metrics is not None and self._metrics.concerns(place):
            return await self._metrics.answer(asked, place)
        return await self._resources.answer(asked, place)

    def _review(self, request: ApiRequest, review: ResourceType) -> Answer:
        body = object_in(request) if request.method == "POST" else {}
        return json_answer(encode(reviewed(review, request.method, body, self._token)), status=201)

    def _document(self, request: ApiRequest, path: str) -> Answer:
        if request.method not in ("GET", "HEAD"):
            is_known = path in ("/version", "/version/") or self._discovery.document(path, "") is not None
            raise errors.method_not_allowed() if is_known else no_such_path(path)
        accept = request.headers.get("accept", "")
        if path in ("/version", "/version/"):  # clients that are generated from OpenAPI request `/version/`
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
            raise no_such_path(path)
        return json_answer(encode(described[0]), content_type=described[1])


def _health(request: Request) -> Answer | None:
    """Return the response to a health check such as `/readyz`, in kube-apiserver's format; None for any other path.

    A server that answers is healthy: `ping` is its only check. `kubectl get --raw='/readyz?verbose'` lists the checks.
    """
    name, _, check = request.path.removeprefix("/").partition("/")
    if name not in _HEALTH_CHECKS or check not in ("", "ping"):
        return None
    if check or "verbose" not in api_request(request).query:
        return Answer(b"ok")
    return Answer(f"[+]ping ok\n{name} check passed\n".encode())
