"""What the client tells about itself, so that metrics can be kept without this package knowing any metrics library."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NoObserver", "RequestObserver"]


class RequestObserver(Protocol):
    """Told about every request. Called on the requesting thread: must be thread-safe, quick, and must not raise."""

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """One attempt is over after `seconds`: `code` is the HTTP status, or `<error>` if no answer came.

        A watch counts when the server has accepted or refused it, not when it ends.
        """
        ...

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """The client's own rate limiter held a request back for `seconds` (0 most of the time)."""
        ...

    def retry(self, method: str, host: str, code: str) -> None:
        """The request will be repeated because the server, answering `code`, asked for that."""
        ...


class NoObserver:
    """Ignores everything."""

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Do nothing."""

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """Do nothing."""

    def retry(self, method: str, host: str, code: str) -> None:
        """Do nothing."""
