"""Records for how long the API server has refused the process's credentials. The readiness probe shows this.

A standby replica makes few requests. Without these records, a standby replica would always look ready, although it
could not take over.
"""

from __future__ import annotations

import math

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.protocol.observer import RequestObserver

REFUSED_SECONDS = 120.0
"""After refusals for this many seconds, the process is not ready. A token file is read again each minute, so a single
refusal may occur.
"""


class Refusals(RequestObserver):
    """Passes a client's reports on to another observer, and records answers with the code 401. Thread-safe."""

    def __init__(self, observer: RequestObserver, *, clock: Clock | None = None) -> None:
        self._observer = observer
        self._clock: Clock = clock or SystemClock()
        self._since = math.inf  # of the monotonic clock; replaced as a whole

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Record the answer. Any code other than 401 shows that the server accepts the credentials."""
        if code == "401":
            self._since = min(self._since, self._clock.monotonic())
        elif self._since != math.inf and code.isdigit() and int(code) < 500:
            self._since = math.inf
        self._observer.request(method, host, code, seconds)

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """Pass the report on."""
        self._observer.rate_limiter_wait(method, host, seconds)

    def retry(self, method: str, host: str, code: str) -> None:
        """Pass the report on."""
        self._observer.retry(method, host, code)

    @property
    def problem(self) -> str:
        """The reason why the process can't work, as text.

        It is empty if the server has not refused the credentials for long.
        """
        seconds = self._clock.monotonic() - self._since
        if seconds < REFUSED_SECONDS:
            return ""
        return (
            f"the API server has refused the operator's credentials (401) for {seconds / 60:.0f} minutes: replace them"
        )
