"""The measurements that the client reports, for metrics; this package does not depend on a metrics library."""

from __future__ import annotations


class RequestObserver:
    """Hooks that do nothing in this class. Override the hooks that you need.

    The thread that makes the request calls the hooks. So hooks must be thread-safe and quick, and must not raise.
    """

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Record one attempt that took `seconds`. `code` is the HTTP status, or `<error>` if there was no response.

        A watch is recorded when the server accepts or refuses it, not when it ends.
        """

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """Record that the rate limiter delayed a request by `seconds` (mostly 0).

        The method is not called if there is no rate limiter.
        """

    def retry(self, method: str, host: str, code: str) -> None:
        """Record a retry that the server requested with the status `code`."""

    def no_credential(self) -> None:
        """Record that a request could not be sent, because there is no credential: a plugin fails, for example."""
