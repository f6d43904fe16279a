"""Strangers, each with some connections from its own address to every server; lost connections are opened again.

`python -m tests.support.crowd MANNER SOURCES EACH SECONDS PORT... -- TLS_PORT...`, in a process of its own: it must not
slow down clients that look at the servers meanwhile. Manners are the keys of `_BEGUN`, and "mixed": half of them rest,
half send a byte a second. Prints how many connections were opened, for longer than SECONDS until a server closed some.
"""

import asyncio
import contextlib
import itertools
import json
import ssl
import sys
import time
from collections.abc import Iterator

_PAUSE_SECONDS = 1.0
_PATIENCE_SECONDS = 120.0
_OBJECT = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "j", "annotations": {"a": "x" * 200_000}},
}
_REVIEW = json.dumps(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "kubeflow.org/v1alpha2", "objects": [_OBJECT] * 10},
    }
).encode()
_BEGUN = {
    "silent": b"",
    "rest": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "head": b"GET /metrics HTTP/1.1\r\nX-Slow: ",
    "body": b"POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
    "handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "unread": b"POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(_REVIEW), _REVIEW),
}
_DRIBBLE = ("head", "body", "handshake", "unread")


class Stranger(asyncio.Protocol):
    """Sends the beginning that its manner has, and reads nothing if that is "unread"."""

    def __init__(self, manner: str) -> None:
        self._manner = manner
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(_BEGUN[self._manner])
        if self._manner == "unread":
            transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Crowd:
    def __init__(self) -> None:
        self.opened = 0
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    async def stay(self, manner: str, source: str, port: int, secured: bool) -> None:
        """Have one connection, and another a second after it has ended."""
        tls = self._tls if secured and manner != "handshake" else None
        while True:
            self.opened += 1
            with contextlib.suppress(OSError):
                transport, stranger = await asyncio.get_running_loop().create_connection(
                    lambda: Stranger(manner), "127.0.0.1", port, local_addr=(source, 0), ssl=tls
                )
                try:
                    while not stranger.ended.done():
                        await asyncio.wait((stranger.ended,), timeout=_PAUSE_SECONDS if manner in _DRIBBLE else None)
                        transport.write(b"x")
                finally:
                    transport.abort()
            await asyncio.sleep(_PAUSE_SECONDS)


async def crowd(manner: str, sources: int, each: int, seconds: float, ports: list[tuple[int, bool]]) -> int:
    manners = ("silent", "head", "handshake", "rest") if manner == "mixed" else (manner,)
    made, began = Crowd(), time.monotonic()
    chosen: Iterator[str] = itertools.cycle(manners)
    tasks = [
        asyncio.ensure_future(made.stay(next(chosen), f"127.1.{n // 250}.{n % 250 + 1}", port, secured))
        for n, _, (port, secured) in itertools.product(range(sources), range(each), ports)
    ]
    while (passed := time.monotonic() - began) < seconds or (made.opened <= len(tasks) and passed < _PATIENCE_SECONDS):
        await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return made.opened


if __name__ == "__main__":
    at = sys.argv.index("--")
    servers = [(int(port), number > at) for number, port in enumerate(sys.argv) if number > 4 and number != at]
    print(asyncio.run(crowd(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), servers)))
