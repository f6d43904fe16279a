import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from hack.base_image import DOCKER_HUB, DOCKERFILE, BaseImageError, Reference, base_of, digest_of, with_digest

INDEX = b'{"schemaVersion": 2, "manifests": []}'
DIGEST = f"sha256:{hashlib.sha256(INDEX).hexdigest()}"


class Registry(BaseHTTPRequestHandler):
    """Answers by the distribution specification, to clients that have fetched a token."""

    digest: ClassVar[str] = DIGEST

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        if self.path == "/token?service=registry&scope=repository%3Alibrary%2Fpython%3Apull":
            self.answer(200, b'{"token": "let-me-in"}')
        elif self.headers.get("Authorization") != "Bearer let-me-in":
            realm, scope = f"http://127.0.0.1:{port}/token", "repository:library/python:pull"
            asked = f'Bearer realm="{realm}",service="registry",scope="{scope}"'
            self.answer(401, b"{}", **{"WWW-Authenticate": asked})
        elif self.path == "/v2/library/python/manifests/3.13-slim" and "oci.image.index" in self.headers["Accept"]:
            self.answer(200, INDEX, **{"Docker-Content-Digest": self.digest})
        else:
            self.answer(404, b"{}")

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("python:3.13-slim", (DOCKER_HUB, "library/python", "3.13-slim")),
        ("python", (DOCKER_HUB, "library/python", "latest")),
        ("team/python:3@sha256:00", (DOCKER_HUB, "team/python", "3")),
        ("registry.example.com:5000/team/python:3", ("registry.example.com:5000", "team/python", "3")),
        ("localhost/python", ("localhost", "python", "latest")),
    ],
)
def test_a_name_says_which_registry_is_asked(name: str, expected: tuple[str, str, str]) -> None:
    assert Reference.parse(name) == Reference(*expected)


def test_the_registry_is_asked_with_the_token_that_it_offers_and_not_believed_if_it_sends_something_else(
    registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Reference(registry, "library/python", "3.13-slim")
    assert digest_of(there, scheme="http") == DIGEST
    with pytest.raises(BaseImageError, match=f"{registry} doesn't say what 9 is: .*404"):
        digest_of(Reference(registry, "library/python", "9"), scheme="http")
    monkeypatch.setattr(Registry, "digest", "sha256:" + "0" * 64)
    with pytest.raises(BaseImageError, match="but what it sent is"):
        digest_of(there, scheme="http")


def test_the_dockerfile_gets_the_digest_behind_its_bases_name() -> None:
    once = with_digest(DOCKERFILE.read_text(), DIGEST)
    again = with_digest(once, "sha256:" + "1" * 64)
    assert base_of(once) == f"{base_of(DOCKERFILE.read_text()).partition('@')[0]}@{DIGEST}"
    assert base_of(again).endswith("@sha256:" + "1" * 64)
    assert again.count("sha256:1") == 1
    with pytest.raises(BaseImageError, match="ARG BASE"):
        with_digest("FROM scratch\n", DIGEST)
