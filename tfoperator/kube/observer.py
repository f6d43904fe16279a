"""What the client reports about itself: for metrics, of whose library this package knows nothing."""

from __future__ import annotations


class RequestObserver:
    """Hooks that do nothing here: override what you need.

    They are called on the requesting thread: they must be thread-safe and quick, and must not raise.
    """

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """One attempt is over after `seconds`: `code` is the HTTP status, or `<error>` if no answer came.

        A watch counts when the server has accepted or refused it, not when it ends.
        """

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """The client's own rate limiter, if it has one, held a request back for `seconds` (0 most of the time)."""

    def retry(self, method: str, host: str, code: str) -> None:
        """The request will be repeated because the server, answering `code`, asked for that."""
