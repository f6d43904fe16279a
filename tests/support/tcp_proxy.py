"""A TCP proxy on loopback that can be cut: what a network failure between operator and API server looks like."""

import contextlib
import selectors
import socket
import threading


def _bound(address: tuple[str, int]) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    return listener


class TcpProxy:
    """Forwards connections to one address until `cut()`, which resets them all and refuses new connections.

    `restore()` listens again on the same port, which nobody else gets meanwhile. Thread-safe; `close()` joins its
    threads.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()  # guards _open and _listener
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        # A socket that is bound and does not listen: connections are refused, and the port is not given away.
        self._reserved = _bound(("127.0.0.1", 0))
        self._address = self._reserved.getsockname()
        self.restore()

    @property
    def port(self) -> int:
        return int(self._address[1])

    def restore(self) -> None:
        listener = _bound(self._address)
        listener.listen(64)
        with self._lock:
            self._listener = listener
        self._run(self._accept, listener)

    def cut(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
            connections, self._open = self._open, set()
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._reserved.close()
        for thread in self._threads:
            thread.join(5)

    def _run(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="tcp-proxy", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(self._target, timeout=60)
            except OSError:
                inner.close()
                continue
            with self._lock:
                if self._listener is not listener:
                    inner.close()
                    outer.close()
                    return
                self._open |= {inner, outer}
            self._run(self._pump, inner, outer)

    def _pump(self, inner: socket.socket, outer: socket.socket) -> None:
        with selectors.DefaultSelector() as selector, inner, outer:
            outer.settimeout(None)
            selector.register(inner, selectors.EVENT_READ, outer)
            selector.register(outer, selectors.EVENT_READ, inner)
            with contextlib.suppress(OSError):
                while True:
                    for key, _ in selector.select():
                        assert isinstance(key.fileobj, socket.socket)
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        key.data.sendall(data)
        with self._lock:
            self._open -= {inner, outer}
