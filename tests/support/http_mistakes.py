"""Requests that can be understood in two ways, for every HTTP server of ours."""

import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

Connect = Callable[[], socket.socket]

_SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(_SMUGGLED), _SMUGGLED)
_LENGTH = b"Content-Length: %d\r\n" % len(_SMUGGLED)

MALFORMED = {
    "a doubled length": b"POST / HTTP/1.1\r\nHost: x\r\n" + _LENGTH * 2 + b"\r\n" + _SMUGGLED,
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + _LENGTH + b"\r\n" + _SMUGGLED,
    "a length before chunks": b"POST / HTTP/1.1\r\nHost: x\r\n" + _LENGTH + _CHUNKED,
    "a length after chunks": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + _LENGTH + b"\r\n" + _SMUGGLED,
    "a length with a sign": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n" + _SMUGGLED,
    "a version with more": b"GET / HTTP/1.1x\r\nHost: x\r\n\r\n",
    "a line that is no header": b"GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n",
    "a space before a colon": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello",
    "a value that goes on": b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n",
    "NUL": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n",
}
"""Requests that a server may only answer with 400 and the end of the connection."""


def statuses(said: bytes) -> list[int]:
    """Return the statuses of all answers of a server."""
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", said)]


def exchanged(connect: Connect, sent: bytes, *, half_close: bool = False) -> bytes:
    """Return all that a server answers to these bytes, until it closes the connection.

    With `half_close` the client ends its side: else a server that has refused a request lingers for a second.
    """
    with closing(connect()) as connection:
        connection.sendall(sent)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def check_server(connect: Connect, path: str, *, head: int, headers: str = "Host: x\r\n") -> None:
    """Assert that a server whose answer to HEAD is `head` understands every request of this module in one way only."""
    last = f"{{}} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"
    sent = {**MALFORMED, "HEAD": last.format("HEAD").encode()}
    for method in ("GET", "HEAD", "POST"):
        line = f"{method} {path} HTTP/1.1\r\n{headers}".encode()
        sent[f"{method} with a body"] = line + _LENGTH + b"\r\n" + _SMUGGLED + last.format("GET").encode()
        sent[f"{method} with chunks"] = line + _CHUNKED + last.format("GET").encode()
    with ThreadPoolExecutor(8) as threads:
        answers_by_request = dict(zip(sent, threads.map(partial(exchanged, connect), sent.values()), strict=True))
    for name in MALFORMED:
        assert statuses(answers_by_request.pop(name)) == [400], name
    answer, _, body = answers_by_request.pop("HEAD").partition(b"\r\n\r\n")
    assert (statuses(answer), body) == ([head], b"")
    for name, answers in answers_by_request.items():
        assert 1 <= len(statuses(answers)) <= 2, (name, answers)
