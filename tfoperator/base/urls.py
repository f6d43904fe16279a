"""Shows URLs from users without the parts that may be secrets: users, passwords, queries and fragments. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_AFTER_SCHEME = re.compile(r"://[^\s'\"<>]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*$")
_LONGEST_SCHEME = 40
_UNREADABLE = "..."


def shown_url(text: str) -> str:
    """Return a URL in a form that may be printed and logged; return another text, such as a path, unchanged.

    If a password may contain a slash, or the URL is malformed, only the scheme is shown.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return f"{scheme}://{_UNREADABLE}"
    authority, path = parts.netloc, parts.path
    if "@" in path:  # the password contains a slash, at which the authority ended too early
        return f"{scheme}://{_UNREADABLE}"
    host = authority.rpartition("@")[2]
    hidden = "..." if parts.query or parts.fragment or rest.endswith(("?", "#")) else ""
    return f"{scheme}://{host}{path}" + (f"?{hidden}" if hidden else "")


def with_shown_urls(text: str) -> str:
    """Return a text, such as an error of a library, with each URL in the form that may be printed.

    The time is linear in the length of the text: a scheme is searched for only before each `://`.
    """

    def shown(match: re.Match[str]) -> str:
        scheme = _SCHEME.search(text[max(match.start() - _LONGEST_SCHEME, 0) : match.start()])
        return match[0] if scheme is None else shown_url(scheme[0] + match[0])[len(scheme[0]) :]

    return _AFTER_SCHEME.sub(shown, text)
