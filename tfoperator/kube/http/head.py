"""The head of an HTTP/1.1 answer: its status, what says how long the body is, and all other headers if somebody asks.

Of most answers nobody does, and taking a dozen headers apart costs as much as all else about them.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

_LONG_HEADER = 200

_INITIALS_OF_FRAMING = frozenset("cCtT")


class LazyHeaders(Mapping[str, str]):
    """Headers by their names in lower case, taken apart when they are asked for. Those of one name are joined."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    @cached_property
    def _headers(self) -> dict[str, str]:
        return headers_of(self._lines)

    def __getitem__(self, name: str) -> str:
        return self._headers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)


class Head:
    """A head, without the empty line at its end.

    `framing` has at least Content-Length, Transfer-Encoding and Connection, if there are any. Raises BadStatusLine.
    """

    __slots__ = ("framing", "headers", "is_old", "status")

    def __init__(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        self.status, self.is_old = _status_of(first)
        """The code, and whether it speaks HTTP/1.0."""
        self.headers: Mapping[str, str] = LazyHeaders(lines)
        self.framing: Mapping[str, str] = self.headers
        if "\r\n " not in head and "\r\n\t" not in head:  # no value goes on in another line
            self.framing = headers_of([line for line in lines if line[0] in _INITIALS_OF_FRAMING])


def headers_of(lines: Sequence[str]) -> dict[str, str]:
    """The headers in these lines, none of which is empty, by their names in lower case."""
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[0] in " \t":  # a value that goes on, as nobody writes any more
            headers[name] = f"{headers.get(name, '')} {line.strip()}"
            continue
        name, value = (_known_header if len(line) < _LONG_HEADER else _header)(line)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


_known_header = lru_cache(256)(_header)  # most lines of an API server's answers are the same in all of them


@lru_cache(64)
def _status_of(line: str) -> tuple[int, bool]:
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if (
        version not in ("HTTP/1.1", "HTTP/1.0")
        or len(code) < 3
        or not (code.isascii() and code.isdigit())
        or code < "100"
    ):
        raise http.client.BadStatusLine(line[:40])
    return int(code), version == "HTTP/1.0"
