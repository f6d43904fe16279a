"""The one thing that an API server asks of a kubelet in our tests: the log of a container, with times if asked for.

A Node object that names its port makes a real kube-apiserver come here for `pods/log`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.container_log import ContainerLog
from tests.support.eventually import eventually
from tfoperator.local.apiserver.http.listener import make_certificate
from tfoperator.local.runtime.log_files import LogRequest

Reader = Callable[[LogRequest], Iterator[bytes]]


class FakeKubelet:
    """A context manager. Logs are written by tests, or copied from `reader` when they are first asked for."""

    def __init__(self, reader: Reader | None = None) -> None:
        self._reader = reader
        self._logs: dict[str, ContainerLog] = {}
        self._lock = threading.Lock()  # guards _logs and _threads
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        kubelet = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kubelet._handle(self)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # clients hang up

        self._server = Server(("127.0.0.1", 0), Handler)
        _, context = make_certificate()
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fake-kubelet")

    @property
    def node_status(self) -> dict[str, Any]:
        """The node status that leads the API server to this kubelet."""
        port = self._server.server_address[1]
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        return {"addresses": [address], "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}

    def log(self, namespace: str, pod: str, container: str) -> ContainerLog:
        """Return the log of a container; the name of its previous run's log is `NAME previous`."""
        with self._lock:
            return self._logs.setdefault(f"{namespace}/{pod}/{container}", ContainerLog())

    def _copy(self, name: tuple[str, ...], log: ContainerLog) -> None:
        assert self._reader is not None
        for data in self._reader(LogRequest(*name, follow=True)):
            log.write(data)
            if self._stopping.is_set():
                break
        log.end()

    def _find(self, *name: str) -> ContainerLog:
        with self._lock:
            log = self._logs.get("/".join(name))
            if log is None:
                log = self._logs["/".join(name)] = ContainerLog()
                if self._reader is not None:
                    thread = threading.Thread(target=self._copy, args=(name, log), name=f"copy-log-{name[1]}")
                    self._threads.append(thread)
                    thread.start()
        return log

    def __enter__(self) -> FakeKubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        for thread in self._threads:
            thread.join(10)
        eventually(lambda: not any(thread.is_alive() for thread in self._threads), what="copying of logs has ended")

    def _send_now(self, handler: BaseHTTPRequestHandler, name: tuple[str, ...], query: dict[str, str]) -> None:
        """Send all that the reader has now; a copy that has just begun does not have it."""
        assert self._reader is not None
        tail = query.get("tailLines")
        try:
            previous, lines = query.get("previous") == "true", None if tail is None else int(tail)
            text = b"".join(self._reader(LogRequest(*name, previous=previous, tail_lines=lines)))
        except LookupError as error:
            handler.send_error(404, str(error))
            return
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(text)

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        parts = url.path.strip("/").split("/")
        if parts[0] != "containerLogs":
            handler.send_error(404)
            return
        namespace, pod, container = parts[1:4]
        follow, times = query.get("follow") == "true", query.get("timestamps") == "true"
        if self._reader is not None and not follow and not times:
            self._send_now(handler, (namespace, pod, container), query)
            return
        log = self._find(namespace, pod, f"{container} previous" if query.get("previous") == "true" else container)
        handler.send_response(200)
        handler.end_headers()
        since = query.get("sinceTime", "")
        for data in log.read(follow=follow, since=since, times=times, stopped=self._stopping.is_set):
            handler.wfile.write(data)
            handler.wfile.flush()
