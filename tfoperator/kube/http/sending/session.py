"""Sends requests with a policy: rate limit, fresh credentials, retries if they are safe, typed errors.

Retries are safe for these reasons. If the server responds with 429, it has not processed the request, so any verb is
retried. After a 5xx response only GET is retried, because a gateway may send a 5xx response after the server has acted.
The client retries in both cases only if the response has a `Retry-After` header, and at most 10 times. If the server
responds with 401, it has not processed the request either. In this case, the client retries once if it finds newer
credentials. If no response arrives, `tfoperator.kube.http.connections.transport` decides whether the request is sent
again.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

import tfoperator
from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import IssuedCredential
from tfoperator.kube.config.tls import ClientCertificate
from tfoperator.kube.http.connections.answer import Response, error_of
from tfoperator.kube.http.connections.exchange import Exchange
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.http.connections.transport import HEADER_SETS, Headers, Transport
from tfoperator.kube.http.sending.requests import Call
from tfoperator.kube.protocol.errors import ApiError, ClientClosed, ConfigError, TransportError
from tfoperator.kube.protocol.observer import RequestObserver

if TYPE_CHECKING:
    from tfoperator.kube.http.sending.exec import Executed

logger = logging.getLogger(__name__)

R = TypeVar("R", Response, ByteStream)

MAX_RETRIES = 10  # as client-go
MAX_RETRY_AFTER = 60.0
"""Seconds. If a server requests a longer pause, the request fails, and the caller decides when to retry."""
_LOGGED_WAIT, _INFO_WAIT = 0.050, 1.0  # seconds, as client-go; waits above the second value are logged at INFO
_MAX_ERROR_BYTES = 1 << 20


class Session:
    """Sends calls to one server. It is thread-safe. `close()` ends current calls, even while they wait for a retry."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        limiter: TokenBucket | None,
        observer: RequestObserver,
        transport: Transport,
        user_agent: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._credentials = config.credentials
        agent = ("User-Agent", user_agent or f"tfoperator/{tfoperator.__version__} ({sys.platform})")
        # A small cache per session, because the headers contain credentials.
        self._headers = lru_cache(HEADER_SETS)(partial(_headers, (agent, *config.headers)))
        self._transport = transport
        self._limiter = limiter
        self._observer = observer
        self._clock: Clock = clock or SystemClock()
        self._stop = StopSignal()

    def close(self) -> None:
        """Make every current and future call raise ClientClosed; end every stream. Idempotent."""
        self._stop.set()
        self._transport.close()

    def call(self, call: Call) -> Response:
        """Send a call and return the response, whose status is always 2xx. Raises KubeError."""
        return self._repeated(call, self._send)

    def stream(self, call: Call) -> ByteStream:
        """Send a GET and return the response when its headers have arrived.

        The status of the response is always 2xx. Raises KubeError.
        """
        return self._repeated(call, self._open)

    def execute(self, call: Call, *, timeout: float, max_bytes: int) -> Executed:
        """Run a command in a container with a call of `pods/exec`. The call is never retried. Raises KubeError.

        `timeout` (seconds) limits the whole run. Output after `max_bytes` is dropped.
        """
        # Imported late: other requests never need the WebSocket library.
        from tfoperator.kube.http.sending.exec import Executed, execute

        self._wait_for_turn(call)
        credential = self._credential()
        try:
            answer = execute(
                self._transport,
                call.target,
                self._header_lines(call, credential),
                certificate=credential.certificate,
                timeout=timeout,
                max_bytes=max_bytes,
            )
        except TransportError as error:
            raise type(error)(f"{call.what}: {error}") from error
        if isinstance(answer, Executed):
            return answer
        raise error_of(answer, call.what)

    # The steps of a call for the multiplexer, which itself writes to and reads from the connections.

    def begin(self, call: Call) -> Exchange | None:
        """Prepare a call on an idle connection.

        Return None if there is no idle connection, or if the call may have to wait. A call may have to wait for the
        rate limiter, or for the exec plugin that gets new credentials. The caller sends the call with
        `Exchange.advance`, and then calls `end` or `fail`. Raises KubeError.
        """
        if call.limited and self._limiter is not None:
            return None
        held = self._credentials.held()
        if held is None:
            return None
        try:
            exchange = self._transport.begin(*self._request(call, held))
        except TransportError as error:
            raise type(error)(f"{call.what}: {error}") from error
        if exchange is not None:
            exchange.authorization = held.authorization
        return exchange

    def end(self, call: Call, exchange: Exchange, seconds: float) -> Response:
        """Return the response to a call that began with `begin`. `seconds` is the duration of the exchange.

        Raises ApiError if the status is not 2xx.
        """
        answer = self._transport.end(exchange)
        self._observe(call, answer.status, seconds)
        return self._accept(call, answer)

    def fail(self, call: Call, exchange: Exchange, error: Exception, seconds: float) -> TransportError | None:
        """Return the error for a call whose connection broke with `error` after this number of seconds.

        Return None if the server can't have received the whole request: the caller may send the call again.
        """
        failure = self._transport.fail(exchange, error)
        if failure is None:
            return None
        self._observe(call, 0, seconds)
        return type(failure)(f"{call.what}: {failure}")

    def go_on(self, call: Call, failure: ApiError, authorization: str) -> Response:
        """Send a call again if a retry is safe. The last attempt failed with `failure`. Return the response.

        If a retry is not safe, raise `failure`. Raises KubeError. `authorization` is the value of the header that was
        sent with the call.
        """
        if failure.code == 401:
            if not self._credentials.refused(authorization):
                raise failure
            try:
                # This attempt skips the rate limiter, as the first attempt of the multiplexer does.
                return self._accept(call, self._timed(call, self._send, self._credentials.current()))
            except ApiError as error:
                failure = error
        return self._repeated(call, self._send, failure)

    def _repeated(
        self, call: Call, send: Callable[[Call, IssuedCredential], R | Response], failure: ApiError | None = None
    ) -> R:
        """Send a call until an attempt needs no retry. Return the response to this attempt, or raise its error.

        `failure` is the error of an earlier attempt: if it is given, the first attempt here is a retry.
        """
        retries = 0
        while True:
            if failure is None:
                try:
                    return self._attempt(call, send)
                except ApiError as error:
                    failure = error
            wait = _retry_after(call, failure)
            if wait is None or retries == MAX_RETRIES:
                raise failure
            logger.info("the server demands a pause of %.1f s: %s", wait, failure)
            self._observer.retry(call.method, self._transport.host, str(failure.code))
            self._pause(call, wait)
            retries, failure = retries + 1, None

    def _attempt(self, call: Call, send: Callable[[Call, IssuedCredential], R | Response]) -> R:
        if call.limited:
            self._wait_for_turn(call)
        credential = self._credential()
        answer = self._timed(call, send, credential)
        if answer.status == 401 and self._credentials.refused(credential.authorization):
            answer = self._timed(call, send, self._credentials.current())
        return self._accept(call, answer)  # type: ignore[return-value]  # other than R it is a Response with an error

    def _credential(self) -> IssuedCredential:
        try:
            return self._credentials.current()
        except ConfigError:
            self._observer.no_credential()
            raise

    def _accept(self, call: Call, answer: R | Response) -> R | Response:
        if 200 <= answer.status < 300:
            return answer
        assert isinstance(answer, Response)
        raise error_of(answer, call.what)

    def _wait_for_turn(self, call: Call) -> None:
        if self._limiter is None:
            return
        seconds = self._limiter.reserve()
        if seconds > 0:
            self._pause(call, seconds)
        if seconds > _LOGGED_WAIT:
            level = logging.INFO if seconds > _INFO_WAIT else logging.DEBUG
            logger.log(level, "the client's own rate limiter delayed the request for %.2f s: %s", seconds, call.what)
        self._observer.rate_limiter_wait(call.method, self._transport.host, seconds)

    def _pause(self, call: Call, seconds: float) -> None:
        if self._stop.wait(self._clock, seconds):
            raise ClientClosed(f"{call.what}: the client was closed before the request was sent")

    def _timed(
        self, call: Call, send: Callable[[Call, IssuedCredential], R | Response], credential: IssuedCredential
    ) -> R | Response:
        began, status = time.perf_counter(), 0
        try:
            answer = send(call, credential)
            status = answer.status
            return answer
        except TransportError as error:
            raise type(error)(f"{call.what}: {error}") from error
        finally:
            self._observe(call, status, time.perf_counter() - began)

    def _observe(self, call: Call, status: int, seconds: float) -> None:
        """Report one attempt to the observer; a status of 0 means that there was no response."""
        self._observer.request(call.method, self._transport.host, str(status) if status else "<error>", seconds)

    def _header_lines(self, call: Call, credential: IssuedCredential) -> Headers:
        return self._headers(call.accept, "" if call.body is None else call.content_type, credential.authorization)

    def _request(
        self, call: Call, credential: IssuedCredential
    ) -> tuple[str, str, Headers, bytes | None, ClientCertificate | None]:
        return call.method, call.target, self._header_lines(call, credential), call.body, credential.certificate

    def _send(self, call: Call, credential: IssuedCredential) -> Response:
        return self._transport.request(*self._request(call, credential))

    def _open(self, call: Call, credential: IssuedCredential) -> ByteStream | Response:
        headers = self._header_lines(call, credential)
        stream = self._transport.open_stream(call.target, headers, credential.certificate)
        if 200 <= stream.status < 300:
            return stream
        with stream:
            return Response(stream.status, stream.fields, stream.read_all(10.0, _MAX_ERROR_BYTES))


def _headers(always: Headers, accept: str, content_type: str, authorization: str) -> Headers:
    """Return the headers of a request. An empty `content_type` or `authorization` gives no header."""
    headers = [*always, ("Accept", accept)]
    if authorization:
        headers.append(("Authorization", authorization))
    if content_type:
        headers.append(("Content-Type", content_type))
    return tuple(headers)


def _retry_after(call: Call, failure: ApiError) -> float | None:
    """Return the seconds until the next attempt, if the server requests a pause and a retry is safe.

    Otherwise return None: the call is not retried. Also return None if the pause is longer than MAX_RETRY_AFTER.
    """
    safe = failure.code == 429 or (failure.code >= 500 and call.method == "GET")
    wait = failure.retry_after
    return wait if safe and wait is not None and wait <= MAX_RETRY_AFTER else None
