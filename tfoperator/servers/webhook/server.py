"""The HTTPS server to which API servers send ConversionReviews.

API servers reuse idle connections. If the server closed a connection at the moment at which an API server sends a
request, the request would fail without a retry. An API server closes a connection that was idle for some time. So this
server waits longer than the API server before it closes an idle connection. For the same reason, existing connections
stay open when the certificate changes.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from tfoperator.api.replicas.names import CONVERSION_PATH
from tfoperator.servers.certificates.tls import TlsServer
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Refusal, Request
from tfoperator.servers.webhook.metrics import WebhookMetrics
from tfoperator.servers.webhook.review import MalformedReview, Reviewed, answer

MAX_BODY = 8 << 20
"""The maximum bytes of a review. A stored object has at most 1.5 MiB as JSON, and an API server sends each object in
its own review.
"""

LIMITS = Limits(
    connections=128,
    per_source=40,  # a Go client keeps 25 idle connections at most
    body=MAX_BODY,
    received=3 * MAX_BODY,
    idle_seconds=150.0,  # more than the 90 s after which Go's clients close an idle connection themselves
)

_SMALL_BODY = 256 << 10
_MAX_CONVERSIONS = 4


class ReviewServer(TlsServer):
    """Responds to ConversionReviews over HTTPS, as soon as it has a certificate.

    Call `start()` once, then `stop()`. Thread-safe.
    """

    def __init__(self, host: str, port: int, metrics: WebhookMetrics, limits: Limits = LIMITS) -> None:
        """Listen on the address. With port 0, select a free port. Raises ListenError if that is impossible."""
        self._metrics = metrics
        self._pool = ThreadPoolExecutor(_MAX_CONVERSIONS, thread_name_prefix="webhook-conversion")
        # A decoded body needs many times its size in memory. So only one large body is converted at a time.
        self._large = asyncio.Semaphore(1)
        super().__init__(host, port, name="the webhook", limits=limits)

    def refused(self, reason: str) -> None:
        """Count a refusal in the metrics."""
        self._metrics.review_failed(reason)

    def stop(self) -> None:
        """Stop listening, respond to the current requests, and end all threads. Idempotent."""
        super().stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def respond(self, request: Request) -> Answer:
        """Return the response to a ConversionReview. Raises Refusal if the request is not a valid review."""
        if request.method != "POST":
            raise Refusal(HTTPStatus.NOT_IMPLEMENTED, "method", "only POST is allowed here")
        if request.path != CONVERSION_PATH:
            message = f"only POST {CONVERSION_PATH} is allowed here"
            raise Refusal(HTTPStatus.NOT_FOUND, "path", message)
        began = time.perf_counter()
        try:
            reviewed = await self._review(request.body)
        except MalformedReview as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, "malformed", str(error)) from None
        if reviewed.failure:
            self._metrics.review_failed("conversion")
            self.log.warning("a conversion failed: %s", reviewed.failure, source=request.source)
        else:
            self._metrics.reviewed(reviewed.version, reviewed.objects, time.perf_counter() - began)
        return Answer(reviewed.body, content_type="application/json")

    async def _review(self, body: bytes) -> Reviewed:
        convert = asyncio.get_running_loop().run_in_executor
        if len(body) <= _SMALL_BODY:
            return await convert(self._pool, answer, body)
        async with self._large:
            return await convert(self._pool, answer, body)
