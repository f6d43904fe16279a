"""The page's server asked as browsers and attackers ask it, on a cluster that a test plays."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from tests.support.stage import Stage
from tfoperator.ui import PageContent, UiServer

WITHIN = 60.0


class Said(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Visitor:
    """A browser, without its eyes."""

    def __init__(self, server: UiServer) -> None:
        self._server = server
        self.headers: dict[str, str] = {}

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Said:
        with closing(self._open(path, method, body, headers)) as connection:
            answer = connection.getresponse()
            return Said(answer.status, answer.headers, answer.read())

    def sign_in(self, link: str) -> None:
        token = link.rpartition("#token=")[2]
        answer = self.ask("/api/session", "POST", json.dumps({"token": token}).encode(), Origin=self._server.url[:-1])
        assert answer.status == 200
        key = json.loads(answer.body)["key"]
        self.headers = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0], "X-Tfoperator-Key": key}

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        with closing(self._open(path, "GET", None, {})) as connection, connection.getresponse() as answer:
            assert answer.status == 200
            yield (json.loads(line) for line in iter(answer.readline, b""))

    def _open(self, path: str, method: str, body: bytes | None, headers: dict[str, str]) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=WITHIN)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**self.headers, **named})
        return connection


class World:
    """A stage, its server, and a visitor with a session."""

    def __init__(self, *, cluster: bool = True, **options: Any) -> None:
        self.stage = Stage()
        self.links: list[str] = []
        client: Any = self.stage if cluster else None
        self.server = UiServer(client, PageContent(**options), on_link=self.links.append)
        self.server.start()
        self.visitor = Visitor(self.server)
        self.visitor.sign_in(self.links[-1])


def until(lines: Iterator[dict[str, Any]], wanted: str) -> Any:
    """The first part of that name in a stream."""
    return next(line[wanted] for line in lines if wanted in line)


def until_all(lines: Iterator[dict[str, Any]], *wanted: str) -> list[Any]:
    """The first part of each of these names in a stream that sends them in any order; the others are passed over."""
    parts: dict[str, Any] = {}
    while not parts.keys() >= set(wanted):
        parts = next(lines) | parts
    return [parts[name] for name in wanted]
