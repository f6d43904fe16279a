"""Access control of the page's server: only a browser that was given a link, and only requests from the page.

The server listens on loopback, which excludes other machines, but neither other users of this machine nor the web
pages that its user visits. So every request must name this server as its host (another name that resolves to
127.0.0.1 fails), a request from another page is refused, and data needs a session. A session has two
halves, created in exchange for a link's token: a cookie, which scripts can't read, and a key, which the page sends in a
header. The cookie alone is not enough: browsers send it to every port of this host, whichever process listens there.
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
"""Maximum number of browsers; beyond it, the oldest needs a new link."""
MAX_FIELDS = 64
"""Maximum number of fields in a query."""
KEY_HEADER = "x-tfoperator-key"


class BrowserSession(msgspec.Struct, frozen=True):
    """The two halves of a session, and the cookie's name."""

    cookie_name: str
    cookie: str
    key: str

    @property
    def set_cookie(self) -> str:
        """The value of the Set-Cookie header. The cookie ends with the browser."""
        return f"{self.cookie_name}={self.cookie}; HttpOnly; SameSite=Strict; Path=/api/"


class Sessions:
    """Links and sessions of one server. Thread-safe. `on_link(token)` is called for each link, also for the first link.

    A link is valid for one exchange, so a copy found later (in a history, or among a process's arguments)
    is useless. After the exchange there is a new link, for another browser.
    """

    def __init__(self, port: int, on_link: Callable[[str], object] = lambda _: None) -> None:
        self._cookie_name = f"tfoperator-{port}"
        self._on_link = on_link
        self._lock = threading.Lock()  # guards the fields below
        self._token = secrets.token_urlsafe(32)
        self._keys: FIFOCache[str, str] = FIFOCache(MAX_SESSIONS)  # by cookie
        on_link(self._token)

    def exchange(self, token: str) -> BrowserSession | None:
        """Return a session for a link's token; None if it is not the current link."""
        with self._lock:
            if not _same(token, self._token):
                return None
            self._token = following = secrets.token_urlsafe(32)
            session = BrowserSession(self._cookie_name, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
            self._keys[session.cookie] = session.key
        self._on_link(following)
        return session

    def knows(self, request: Request) -> bool:
        """Return whether the request has both halves of a session."""
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


def token_in(body: bytes) -> str:
    """Return the link's token in the body of an exchange; empty if there is none."""
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("token", "")
    except UNDECODABLE:
        return ""


def fields_in(query: str) -> dict[str, list[str]] | None:
    """Return the fields of a query; None if there are too many."""
    try:
        return parse_qs(query, max_num_fields=MAX_FIELDS)
    except ValueError:
        return None


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def complaint(request: Request, port: int) -> str:
    """Return why a request can't be from this server's page; empty if it may be. Pure."""
    host = request.headers.get("host", "").lower()  # two joined values match no name of this server
    own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    if host not in own:
        return f"this server accepts requests to 127.0.0.1:{port} and localhost:{port} only"
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host}":
        return "this request comes from another page"
    if request.method != "GET" and origin is None:
        return "this request does not have the header that names its page"
    # "none": the user follows a link from outside of a browser, or types the address.
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _navigates(request):
        return "this request comes from another page"
    return ""


def _navigates(request: Request) -> bool:
    """Return whether the request opens the page itself, like a link on another page.

    The page itself shows no data, and can't be framed.
    """
    return request.method == "GET" and request.path == "/" and request.headers.get("sec-fetch-mode") == "navigate"
