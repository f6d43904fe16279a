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

    def written(self, method: str, kind: str, namespace: str, seconds: float) -> None:
        """The server has carried out a write after `seconds`; `kind` is `pods` or `tfjobs/status`, say."""

    def turned_away(self, seconds: float) -> None:
        """The server has no time, and asks to come back in `seconds`; 0 if it does not say when."""


class Observers(RequestObserver):
    """Tells each of several what it has a hook for."""

    def __init__(self, *observers: RequestObserver) -> None:
        # Most care for few of the hooks, and all of them are called for every request.
        self._request = [one.request for one in observers if _overrides(one, "request")]
        self._rate_limiter_wait = [one.rate_limiter_wait for one in observers if _overrides(one, "rate_limiter_wait")]
        self._retry = [one.retry for one in observers if _overrides(one, "retry")]
        self._written = [one.written for one in observers if _overrides(one, "written")]
        self._turned_away = [one.turned_away for one in observers if _overrides(one, "turned_away")]

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Tell each of it."""
        for hook in self._request:
            hook(method, host, code, seconds)

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        """Tell each of it."""
        for hook in self._rate_limiter_wait:
            hook(method, host, seconds)

    def retry(self, method: str, host: str, code: str) -> None:
        """Tell each of it."""
        for hook in self._retry:
            hook(method, host, code)

    def written(self, method: str, kind: str, namespace: str, seconds: float) -> None:
        """Tell each of it."""
        for hook in self._written:
            hook(method, kind, namespace, seconds)

    def turned_away(self, seconds: float) -> None:
        """Tell each of it."""
        for hook in self._turned_away:
            hook(seconds)


def _overrides(observer: RequestObserver, hook: str) -> bool:
    return getattr(type(observer), hook) is not getattr(RequestObserver, hook)
