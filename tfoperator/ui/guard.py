"""Who may ask the page's server: only a browser that was handed a link, from the page itself.

The server listens on loopback, which keeps other machines away, but neither the other users of this machine nor the web
pages that its user visits. So every request has to name us as its host (a foreign name that was made to resolve to
127.0.0.1 does not), a request that comes from another page is refused, and data needs a session. A session has two
halves, made in exchange for a link's token: a cookie, which scripts can't read, and a key, which the page sends in a
header. The cookie alone is not enough, because browsers send it to every port of this host, whoever listens there.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

import msgspec
from cachetools import FIFOCache

from tfoperator.servers.http import Request

MAX_SESSIONS = 64
"""Browsers; where there are more, the oldest has to be handed a new link."""
KEY_HEADER = "x-tfoperator-key"


class BrowserSession(msgspec.Struct, frozen=True):
    """The two halves of a session, and the cookie's name."""

    cookie_name: str
    cookie: str
    key: str

    @property
    def set_cookie(self) -> str:
        """The header's value. The cookie ends with the browser."""
        return f"{self.cookie_name}={self.cookie}; HttpOnly; SameSite=Strict; Path=/api/"


class Sessions:
    """Links and sessions of one server. Thread-safe. `on_link(token)` is called for each link, the first one included.

    A link is good for one exchange, so who finds it later (in a history, or among the arguments of a process) has
    nothing of it. After the exchange there is a new one, for another browser.
    """

    def __init__(self, port: int, on_link: Callable[[str], object] = lambda _: None) -> None:
        self._cookie_name = f"tfoperator-{port}"
        self._on_link = on_link
        self._lock = threading.Lock()  # guards what follows
        self._token = secrets.token_urlsafe(32)
        self._keys: FIFOCache[str, str] = FIFOCache(MAX_SESSIONS)  # by cookie
        on_link(self._token)

    def exchange(self, token: str) -> BrowserSession | None:
        """A session for the link's token; None if it is not the present one."""
        with self._lock:
            if not _same(token, self._token):
                return None
            self._token = following = secrets.token_urlsafe(32)
            session = BrowserSession(self._cookie_name, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
            self._keys[session.cookie] = session.key
        self._on_link(following)
        return session

    def knows(self, request: Request) -> bool:
        """Whether the request has both halves of a session."""
        cookie = self._cookie(request)
        with self._lock:
            key = self._keys.get(cookie)
        return key is not None and _same(request.headers.get(KEY_HEADER, ""), key)

    def _cookie(self, request: Request) -> str:
        try:
            cookies = SimpleCookie(request.headers.get("cookie", ""))
        except CookieError:
            return ""
        found = cookies.get(self._cookie_name)
        return found.value if found is not None else ""


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def complaint(request: Request, port: int) -> str:
    """Why a request can't be from our page, whatever it asks for; empty if it may be. Pure."""
    host = request.headers.get("host", "").lower()  # two of them are none of our names
    own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if host not in own:
        return f"this server answers to 127.0.0.1:{port} and localhost:{port} only"
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host}":
        return "this request comes from another page"
    if request.method != "GET" and origin is None:
        return "this request does not say which page it comes from"
    # "none" is a person who follows a link from outside of a browser, or types the address.
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _navigates(request):
        return "this request comes from another page"
    return ""


def _navigates(request: Request) -> bool:
    """Whether it opens the page itself, as a link on another page does: that shows nothing, and can't be framed."""
    return request.method == "GET" and request.path == "/" and request.headers.get("sec-fetch-mode") == "navigate"
