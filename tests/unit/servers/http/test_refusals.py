"""Requests that are refused before they have been read."""

from __future__ import annotations

import select
import socket

from tests.support.threads import no_threads_left
from tfoperator.servers.http import Answer, HttpServer, Limits, Request

WITHIN = 60.0


class Small(HttpServer):
    """Takes bodies of 1 KiB at most."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 0, name="test", limits=Limits(body=1024))
        self.reasons: list[str] = []

    async def respond(self, request: Request) -> Answer:
        return Answer(request.body)

    def refused(self, reason: str) -> None:
        self.reasons.append(reason)


def test_who_is_still_sending_learns_why_the_request_is_refused() -> None:
    server = Small()
    with no_threads_left(WITHIN):
        server.start()
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN) as client:
                client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 131072\r\n\r\n" + b"x" * 65536)
                assert select.select([client], [], [], WITHIN)[0], "the answer is there"
                for _ in range(16):  # most clients send all before they read
                    client.sendall(b"x" * 4096)
                answer = b"".join(iter(lambda: client.recv(65536), b""))
        finally:
            server.stop()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"1 KiB" in answer
    assert server.reasons == ["too_large"]
