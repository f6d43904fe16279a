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
        """The client's own rate limiter held a request back for `seconds` (0 most of the time)."""

    def retry(self, method: str, host: str, code: str) -> None:
        """The request will be repeated because the server, answering `code`, asked for that."""

    def written(self, method: str, kind: str, namespace: str, seconds: float) -> None:
        """The server has carried out a write after `seconds`; `kind` is `pods` or `tfjobs/status`, say."""

    def turned_away(self, seconds: float) -> None:
        """The server has no time, and asks to come back in `seconds`; 0 if it does not say when."""


class Observers(RequestObserver):
    """Tells each of several."""

    def __init__(self, *observers: RequestObserver) -> None:
        self._observers = observers

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Tell each of it."""
        for one in self._observers:
            one.request(method, host, code, seconds)

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """Tell each of it."""
        for one in self._observers:
            one.rate_limiter_wait(method, host, seconds)

    def retry(self, method: str, host: str, code: str) -> None:
        """Tell each of it."""
        for one in self._observers:
            one.retry(method, host, code)

    def written(self, method: str, kind: str, namespace: str, seconds: float) -> None:
        """Tell each of it."""
        for one in self._observers:
            one.written(method, kind, namespace, seconds)

    def turned_away(self, seconds: float) -> None:
        """Tell each of it."""
        for one in self._observers:
            one.turned_away(seconds)
