"""Access control of the page's server.

The server listens on loopback, so other machines can't reach it. But other users of this machine can send requests to
it, and so can any web page that the user's browser shows. So there are these checks:

- The header `Host` must be 127.0.0.1, localhost or ::1, with the server's port. So DNS rebinding, a name of another web
  site that resolves to 127.0.0.1, does not work.
- The headers `Origin` and `Sec-Fetch-Site` must not show that another web page has sent the request.
- A request for data needs a session. `tfoperator ui` prints a link with a token, and a browser exchanges the token for
  a session. A session has two halves: a cookie, which scripts can't read, and a key, which the page sends in a header.
  The cookie alone is not enough, because browsers send it to every port of 127.0.0.1, also to other users' servers.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

import msgspec
from cachetools import FIFOCache

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.servers.http.messages import Request

MAX_SESSIONS = 64
"""The page has at most this many sessions. A further session ends the oldest session, whose browser then needs a new
link.
"""
MAX_FIELDS = 64
"""The server accepts at most this many fields in the query of a URL."""
KEY_HEADER = "x-tfoperator-key"


class BrowserSession(msgspec.Struct, frozen=True):
    """The two halves of a session, the cookie's value and the key, and the name of the cookie."""

    cookie_name: str
    cookie: str
    key: str

    @property
    def set_cookie(self) -> str:
        """The value of the header Set-Cookie. The browser deletes the cookie when the user closes the browser."""
        return f"{self.cookie_name}={self.cookie}; HttpOnly; SameSite=Strict; Path=/api/"


class Sessions:
    """The links and sessions of a server. Thread-safe.

    A link's token can be exchanged only once. So a copy that somebody finds later, in a browser's history or in a
    process's arguments, is useless. After the exchange there is a new link, for another browser. `on_link(token)` is
    called with the token of each new link, including the first link.
    """

    def __init__(self, port: int, on_link: Callable[[str], object] = lambda _: None) -> None:
        self._cookie_name = f"tfoperator-{port}"
        self._on_link = on_link
        self._lock = threading.Lock()  # guards the fields below
        self._token = secrets.token_urlsafe(32)
        self._keys: FIFOCache[str, str] = FIFOCache(MAX_SESSIONS)  # by cookie
        on_link(self._token)

    def exchange(self, token: str) -> BrowserSession | None:
        """Return a new session in exchange for a link's token. Return None if it is not the current link's token."""
        with self._lock:
            if not _same(token, self._token):
                return None
            self._token = following = secrets.token_urlsafe(32)
            session = BrowserSession(self._cookie_name, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
            self._keys[session.cookie] = session.key
        self._on_link(following)
        return session

    def knows(self, request: Request) -> bool:
        """Return whether the request contains both halves of a session: the cookie, and the header with its key."""
        cookie = self._cookie(request)
        with self._lock:
            key = self._keys.get(cookie)
        return key is not None and _same(request.headers.get(KEY_HEADER, ""), key)

    def _cookie(self, request: Request) -> str:
        try:
            cookies = SimpleCookie(request.headers.get("cookie", ""))
        except CookieError:
            return ""
        cookie = cookies.get(self._cookie_name)
        return cookie.value if cookie is not None else ""


def token_in(body: bytes) -> str:
    """Return the token in the JSON body `{"token": "..."}` of a request for a session, or ""."""
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("token", "")
    except UNDECODABLE:
        return ""


def fields_in(query: str) -> dict[str, list[str]] | None:
    """Return the fields of a URL's query. Return None if there are more than MAX_FIELDS fields."""
    try:
        return parse_qs(query, max_num_fields=MAX_FIELDS)
    except ValueError:
        return None


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def complaint(request: Request, port: int) -> str:
    """Return the reason why a request is refused: its headers show that it does not come from this server's page.

    Return "" if it may come from the page. Pure.
    """
    host = request.headers.get("host", "").lower()  # two headers `Host` are joined by a comma, and match no own name
    own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if host not in own:
        return f"this server accepts requests to 127.0.0.1:{port} and localhost:{port} only"
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host}":
        return "this request comes from another page"
    if request.method != "GET" and origin is None:
        return "this request does not have the header Origin, which names its page"
    # Browsers send "none" if the user types the address, or follows a link from outside of the browser.
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _navigates(request):
        return "this request comes from another page"
    return ""


def _navigates(request: Request) -> bool:
    """Return whether the browser opens the page `/` itself, for example because of a link on another page.

    This is harmless: the HTML contains no data, and other pages can't show it in a frame.
    """
    return request.method == "GET" and request.path == "/" and request.headers.get("sec-fetch-mode") == "navigate"
