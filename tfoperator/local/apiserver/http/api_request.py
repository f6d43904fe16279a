"""A request to the API: the HTTP request and its parsed query."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec

from tfoperator.servers.http.messages import Request


class ApiRequest(msgspec.Struct, frozen=True):
    """One request. `path` is percent-encoded. If a parameter occurs several times, `query` contains its first value."""

    method: str
    path: str
    query: Mapping[str, str]
    commands: tuple[str, ...]
    """The words of the command of an `exec`: the query contains the parameter `command` once for each word."""
    headers: Mapping[str, str]
    """The headers, by their names in lower case."""
    body: bytes

    @property
    def media_type(self) -> str:
        """The body's media type, in lower case and without parameters. Empty without a Content-Type header."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def api_request(request: Request) -> ApiRequest:
    """Return the API's representation of a request."""
    query: dict[str, str] = {}
    commands: list[str] = []
    if request.query:
        for name, value in parse_qsl(request.query, keep_blank_values=True):
            query.setdefault(name, value)
            if name == "command":
                commands.append(value)
    return ApiRequest(request.method, request.path, query, tuple(commands), request.headers, request.body)
