"""The measurements that the client reports, for metrics; this package does not depend on a metrics library."""

from __future__ import annotations


class RequestObserver:
    """Hooks that do nothing here: override those that you need.

    They are called on the requesting thread: they must be thread-safe and quick, and must not raise.
    """

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Record one attempt that took `seconds`: `code` is the HTTP status, or `<error>` without a response.

        A watch counts when the server accepts or refuses it, not when it ends.
        """

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """Record that the rate limiter delayed a request by `seconds` (mostly 0); not called without a rate limiter."""

    def retry(self, method: str, host: str, code: str) -> None:
        """Record a retry that the server asked for with the status `code`."""
