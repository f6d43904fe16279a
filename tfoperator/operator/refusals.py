"""Records for how long the process has had no credentials that the API server accepts, for the readiness probe.

The API server refuses the credentials (401), or there are none: a credential plugin fails, for example. After
`REFUSED_SECONDS`, the readiness probe fails. Without this check, a standby replica whose credentials are refused would
stay ready, although it could not take over: it makes few requests, so its refusals would stay unnoticed.
"""

from __future__ import annotations

import math

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.protocol.observer import RequestObserver

REFUSED_SECONDS = 120.0
"""After refusals for this many seconds, the process is not ready. A shorter refusal is normal: the client reads a token
file only once a minute, so it may send an expired token.
"""


class Refusals(RequestObserver):
    """An observer of requests that records since when there are no accepted credentials. Thread-safe.

    This observer passes each call on to another observer, `observer`, for example the metrics.
    """

    def __init__(self, observer: RequestObserver, *, clock: Clock | None = None) -> None:
        self._observer = observer
        self._clock: Clock = clock or SystemClock()
        self._since = math.inf  # the first of the present failures, on the monotonic clock

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Record whether the server accepts the credentials: it does if the code is below 500 and is not 401.

        A code of 500 or more, or a request without a response, does not change the record.
        """
        if code == "401":
            self._since = min(self._since, self._clock.monotonic())
        elif self._since != math.inf and code.isdigit() and int(code) < 500:
            self._since = math.inf
        self._observer.request(method, host, code, seconds)

    def no_credential(self) -> None:
        """Record that there is no credential for a request."""
        self._since = min(self._since, self._clock.monotonic())
        self._observer.no_credential()

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """Pass the call on to the observer that was given to the constructor."""
        self._observer.rate_limiter_wait(method, host, seconds)

    def retry(self, method: str, host: str, code: str) -> None:
        """Pass the call on to the observer that was given to the constructor."""
        self._observer.retry(method, host, code)

    @property
    def problem(self) -> str:
        """The message for the readiness probe.

        The message is "" unless there have been no accepted credentials for at least REFUSED_SECONDS.
        """
        seconds = self._clock.monotonic() - self._since
        if seconds < REFUSED_SECONDS:
            return ""
        return (
            f"for {seconds / 60:.0f} minutes, the operator has had no credentials, or the API server has refused them "
            "(401): replace the credentials"
        )
