"""Access control of the page's server.

The server listens on loopback, so other machines can't reach the server. But other users of this machine can send
requests to the server, and so can any web page in the user's browser. So the server checks each request:

- The header `Host` must be 127.0.0.1, localhost or ::1, with the server's port. This check prevents DNS rebinding, in
  which the name of another web site resolves to 127.0.0.1.
- The headers `Origin` and `Sec-Fetch-Site` must not show that another web page has sent the request.
- A request for data needs a session. `tfoperator ui` prints a link with a token, and a browser exchanges the token for
  a session. A session has two halves: a cookie, which scripts can't read, and a key, which the page sends in a header.
  The cookie alone is not enough, because browsers send the cookie to the servers on all ports of 127.0.0.1. Some of
  these servers can belong to other users.
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
"""The server has at most this many sessions. If a browser then begins a new session, the server ends the oldest
session. The browser of the ended session needs a new link.
"""
MAX_FIELDS = 64
"""The server accepts at most this many fields in the query of a URL."""
KEY_HEADER = "x-tfoperator-key"
"""The header in which the page sends the key of its session."""


class BrowserSession(msgspec.Struct, frozen=True):
    """A session of a browser: the name and the value of its cookie, and its key."""

    cookie_name: str
    cookie: str
    key: str

    @property
    def set_cookie(self) -> str:
        """The value of the header Set-Cookie. The browser deletes the cookie when the user closes the browser."""
        return f"{self.cookie_name}={self.cookie}; HttpOnly; SameSite=Strict; Path=/api/"


class Sessions:
    """The sessions of a server, and the token of the current link. Thread-safe.

    The token of a link can be exchanged for a session only once. So a token that is in a browser's history or in the
    arguments of a process can't be used again. After each exchange, the current link has a new token, for another
    browser. The constructor and `exchange` call `on_link(token)` with the token of each new link.
    """

    def __init__(self, port: int, on_link: Callable[[str], object] = lambda _: None) -> None:
        self._cookie_name = f"tfoperator-{port}"
        self._on_link = on_link
        self._lock = threading.Lock()  # guards the fields below
        self._token = secrets.token_urlsafe(32)
        self._keys: FIFOCache[str, str] = FIFOCache(MAX_SESSIONS)  # by cookie
        on_link(self._token)

    def exchange(self, token: str) -> BrowserSession | None:
        """Return a new session if `token` is the token of the current link. Otherwise return None.

        With the new session, the current link gets a new token.
        """
        with self._lock:
            if not _same(token, self._token):
                return None
            self._token = following = secrets.token_urlsafe(32)
            session = BrowserSession(self._cookie_name, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
            self._keys[session.cookie] = session.key
        self._on_link(following)
        return session

    def knows(self, request: Request) -> bool:
        """Return whether the request contains both halves of a session: the cookie and, in a header, the key."""
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
    """Return the token in the JSON body of a request for a session: `{"token": "..."}`. Without a token, return ""."""
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
    """Return the reason why the server must refuse a request, or "" if the request may come from this server's page.

    The server must refuse a request whose headers show that another page has sent the request. Pure.
    """
    host = request.headers.get("host", "").lower()  # the parser joins two headers `Host` by a comma: not in `own`
    own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if host not in own:
        return f"this server accepts requests to 127.0.0.1:{port}, localhost:{port} and [::1]:{port} only"
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host}":
        return "this request comes from another page"
    if request.method != "GET" and origin is None:
        return "this request needs the header Origin, which names the page that sends the request"
    # Browsers send "none" if the user types the address, or opens a link in another program, such as the terminal.
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _navigates(request):
        return "this request comes from another page"
    return ""


def _navigates(request: Request) -> bool:
    """Return whether the browser opens `/` as a page, for example because the user clicked a link on another page.

    Such a request is harmless: the HTML contains no data, and other pages can't show the HTML in a frame.
    """
    return request.method == "GET" and request.path == "/" and request.headers.get("sec-fetch-mode") == "navigate"
