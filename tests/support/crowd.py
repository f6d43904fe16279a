"""Many sources with one connection each to every server; who loses a connection opens another a second later.

`python -m tests.support.crowd MANNER SOURCES SECONDS PORT... -- TLS_PORT...`, in a process of its own: it must not slow
down who looks at the servers meanwhile. In a gentle manner ("rest", "head") they send one request and rest, or begin
one; in the others they send, a byte a second, their "handshake" (where there is TLS), a "dribbled-head" or a "body".
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import sys
import time

_REST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
_BEGUN = {
    "rest": _REST,
    "head": b"GET /metrics HTTP/1.1\r\nX-Slow: ",
    "dribbled-head": b"GET /metrics HTTP/1.1\r\nX-Slow: ",
    "body": b"POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
    "handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
_GENTLE = ("rest", "head")


class Stranger(asyncio.Protocol):
    def __init__(self, manner: str, ended: asyncio.Future[None]) -> None:
        self._manner, self._ended = manner, ended
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(_BEGUN[self._manner])

    def connection_lost(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


async def stay(manner: str, source: str, port: int, tls: ssl.SSLContext | None, opened: list[int], pause: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        ended = loop.create_future()
        opened[0] += 1
        with contextlib.suppress(OSError):
            transport, _ = await loop.create_connection(
                lambda ended=ended: Stranger(manner, ended), "127.0.0.1", port, local_addr=(source, 0),
                ssl=None if manner == "handshake" else tls,
            )
            try:
                while not ended.done():
                    await asyncio.wait((ended,), timeout=None if manner in _GENTLE else 1.0)
                    transport.write(b"x")
            finally:
                transport.abort()
        await asyncio.sleep(pause)


async def crowd(manner: str, sources: int, seconds: float, ports: list[int], tls_ports: list[int], pause: float) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opened = [0]
    every = [(port, None) for port in ports] + [(port, context) for port in tls_ports]
    tasks = [
        asyncio.ensure_future(stay(manner, f"127.1.{n // 250}.{n % 250 + 1}", port, tls, opened, pause))
        for n, (port, tls) in itertools.product(range(sources), every)
    ]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return opened[0]


if __name__ == "__main__":
    at = sys.argv.index("--")
    plain, secured = [int(one) for one in sys.argv[5:at]], [int(one) for one in sys.argv[at + 1 :]]
    print(asyncio.run(crowd(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), plain, secured, float(sys.argv[4]))))
