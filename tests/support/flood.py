"""Opens connections from one address, as many as there are places, and opens others for those that are closed.

`python -m tests.support.flood SOURCE CONNECTIONS SECONDS PORT...`, in a process of its own: it must not slow down who
looks at the servers meanwhile. A third say nothing, a third begin a request, a third begin with what is no request.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time

_BEGINNINGS = (b"", b"GET /metrics HTTP/1.1\r\nX-Slow: ", b"\x16\x03\x01\x02\x00\x01")


_PATIENCE = 120.0


def flood(source: str, connections: int, seconds: float, ports: list[int]) -> int:
    """Returns how many connections were opened: it goes on for longer until some were closed and opened again."""
    selector, opened, began = selectors.DefaultSelector(), 0, time.monotonic()
    while (passed := time.monotonic() - began) < seconds or (opened <= connections and passed < _PATIENCE):
        while len(selector.get_map()) < connections:
            opened += 1
            one = socket.socket()
            one.setblocking(False)
            one.bind((source, 0))
            with contextlib.suppress(BlockingIOError):
                one.connect(("127.0.0.1", ports[opened % len(ports)]))
            selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE, _BEGINNINGS[opened // 3 % 3])
        for key, _ in selector.select(0.01):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            try:
                if key.data:
                    one.send(key.data)
                    selector.modify(one, selectors.EVENT_READ)
                elif key.events & selectors.EVENT_WRITE:
                    selector.modify(one, selectors.EVENT_READ)
                elif not one.recv(1024):
                    raise ConnectionResetError
            except OSError:
                selector.unregister(one)
                one.close()
    for key in list(selector.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    selector.close()
    return opened


if __name__ == "__main__":
    print(flood(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), [int(port) for port in sys.argv[4:]]))
