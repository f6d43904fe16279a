"""Access control of the page's server.

It accepts only a browser that was given a link, and only requests that come from the page. The server listens on
loopback, so other machines can't reach it. But other users of this machine can reach it, and so can the web pages that
its user visits. So every request must name this server as its host: any other name that resolves to 127.0.0.1 is
refused. A request from another web page is also refused. And requests for data need a session. A session has two
halves, which a browser gets in exchange for the token in a link. One half is a cookie, which scripts can't read. The
other half is a key, which the page sends in a header. The cookie alone does not suffice, because browsers send it to
every port of this host, whichever process listens there.
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
"""The maximum number of browsers. If there are more, the oldest browser needs a new link."""
MAX_FIELDS = 64
"""Maximum number of fields in a query."""
KEY_HEADER = "x-tfoperator-key"


class BrowserSession(msgspec.Struct, frozen=True):
    """The two halves of a session, and the name of the cookie."""

    cookie_name: str
    cookie: str
    key: str

    @property
    def set_cookie(self) -> str:
        """The value of the Set-Cookie header. The browser deletes the cookie when the browser ends."""
        return f"{self.cookie_name}={self.cookie}; HttpOnly; SameSite=Strict; Path=/api/"


class Sessions:
    """The links and sessions of a server.

    `on_link(token)` is called for each link, including the first link. Thread-safe. A link is valid for one exchange
    only. So a copy that somebody finds later (in a browser's history, or in a process's arguments) is useless. After
    the exchange there is a new link, for another browser.
    """

    def __init__(self, port: int, on_link: Callable[[str], object] = lambda _: None) -> None:
        self._cookie_name = f"tfoperator-{port}"
        self._on_link = on_link
        self._lock = threading.Lock()  # guards the fields below
        self._token = secrets.token_urlsafe(32)
        self._keys: FIFOCache[str, str] = FIFOCache(MAX_SESSIONS)  # by cookie
        on_link(self._token)

    def exchange(self, token: str) -> BrowserSession | None:
        """Return a session in exchange for a link's token. Return None if it is not the token of the current link."""
        with self._lock:
            if not _same(token, self._token):
                return None
            self._token = following = secrets.token_urlsafe(32)
            session = BrowserSession(self._cookie_name, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
            self._keys[session.cookie] = session.key
        self._on_link(following)
        return session

    def knows(self, request: Request) -> bool:
        """Return whether the request contains both halves of a session."""
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
    """Return the token in the body of an exchange. Return "" if there is none."""
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("token", "")
    except UNDECODABLE:
        return ""


def fields_in(query: str) -> dict[str, list[str]] | None:
    """Return the fields of a query. Return None if there are too many fields."""
    try:
        return parse_qs(query, max_num_fields=MAX_FIELDS)
    except ValueError:
        return None


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def complaint(request: Request, port: int) -> str:
    """Return the reason why a request can't come from this server's page.

    Return "" if it may come from the page. Pure.
    """
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
    """Return whether the request opens the page itself, for example by a link on another page.

    This is harmless: the page itself shows no data, and other pages can't show it in a frame.
    """
    return request.method == "GET" and request.path == "/" and request.headers.get("sec-fetch-mode") == "navigate"
