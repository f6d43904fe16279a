"""The responses with the files of the page, and the HTTP headers of all responses of the page's server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from tfoperator.servers.http.messages import Answer

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

_FRAMES = "frame-src http://127.0.0.1:* http://localhost:*"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The value of the header Content-Security-Policy. With this header, the browser loads only files of this server into
the page, and ignores inline scripts and styles. Because of `require-trusted-types-for`, the browser also prevents the
page's scripts from inserting a text as HTML.
"""

_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
NOT_STORED = (("Content-Security-Policy", _POLICY), *_HEADERS, ("Cache-Control", "no-store"))
"""The headers of all responses except the files of the page. The browser must not store such a response, because the
response can contain data of users.
"""


@cache
def assets(*, frames: bool = False) -> Mapping[str, Answer]:
    """Return the response for each file of the page. The keys of the result are the paths of the requests.

    `/` is the path of index.html. With `frames`, the page may show the pages of other servers on this machine in a
    frame, for example TensorBoard.
    """
    answers: dict[str, Answer] = {}
    policy = f"{_POLICY}; {_FRAMES}" if frames else _POLICY
    headers = (("Content-Security-Policy", policy), *_HEADERS, ("Cache-Control", "no-cache"))
    for file in resources.files("tfoperator.ui").joinpath("static").iterdir():
        content_type = _TYPES.get(f".{file.name.rpartition('.')[2]}")
        if content_type is not None:
            path = "/" if file.name == "index.html" else f"/static/{file.name}"
            answers[path] = Answer(file.read_bytes(), content_type=content_type, headers=headers)
    return answers
