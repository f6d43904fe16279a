"""Everything that our client reads from API servers: objects, watches, and HTTP from an answer's first byte on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from hack.decoders.decoder import Decoder
from hack.decoders.samples import FAILED_WATCH, LEASE, LIST, POD, SERVICE, STATUS, WATCH, as_json, jobs
from tfoperator.api.cached_job import decode_job_for_cache
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.base.clock import SystemClock
from tfoperator.kube.client import Client, WatchPace
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.http.watch import HttpWatch
from tfoperator.kube.protocol.errors import UNDECODABLE, KubeError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import decode_partial, decode_pod, decode_service
from tfoperator.leaderelection.lease import LeaseLock

LEASE_ERRORS = (KubeError, msgspec.MsgspecError)


@contextmanager
def client_decoders() -> Iterator[list[Decoder]]:
    """Yield the client's decoders; the HTTP decoders talk to a server on loopback."""
    with (
        _Server() as server,
        Client(ClusterConfig(server=server.url), request_timeout=5, watches=WatchPace(5)) as client,
        Client(ClusterConfig(server=server.url), watches=WatchPace(5, 0.001)) as batching,
    ):
        yield [*_objects(), *_streams(), *_http(server, client, batching)]


def _objects() -> list[Decoder]:
    return [
        Decoder("tfjob", jobs(), decode_tfjob, UNDECODABLE),
        Decoder("cached tfjob", jobs(), decode_job_for_cache, UNDECODABLE),
        Decoder("pod", (as_json(POD),), decode_pod, UNDECODABLE),
        Decoder("service", (as_json(SERVICE),), decode_service, UNDECODABLE),
        Decoder("metadata", (as_json(POD),), decode_partial, UNDECODABLE),
    ]


class _Bytes:
    """The stream that HttpWatch reads, in pieces of a few sizes."""

    def __init__(self, data: bytes) -> None:
        size = (1, 7, 64, 4096)[len(data) % 4]
        self._pieces = iter([data[at : at + size] for at in range(0, len(data), size)])

    def read(self, timeout: float | None, gather: int = 0) -> bytes:  # noqa: ARG002 - ByteStream's signature
        return next(self._pieces, b"")

    def close(self) -> None:
        pass


def _streams() -> list[Decoder]:
    def watched(data: bytes) -> None:
        stream: Any = _Bytes(data)
        list(HttpWatch(stream, decode_pod, what="w", read_deadline=1, total_deadline=1e9, clock=SystemClock()))

    return [Decoder("watch", (WATCH, FAILED_WATCH), watched, (KubeError,), weight=2.0)]


# HTTP, from the first byte of an answer on.


class _Server:
    """Answers each connection with the bytes of the moment and hangs up."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.answer = b""
        self._thread = threading.Thread(target=self._serve, name="fuzz-server", daemon=True)

    def __enter__(self) -> _Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                try:
                    request = b""
                    while b"\r\n\r\n" not in request and (data := connection.recv(65536)):
                        request += data
                    connection.sendall(self.answer)
                except OSError:
                    pass  # the client was faster


def _answer(body: bytes, status: str = "200 OK", *, chunked: bool = False, headers: str = "") -> bytes:
    if chunked:
        cut = len(body) // 2
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (body[:cut], body[cut:]))
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
        return head.encode() + pieces + b"0\r\n\r\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def _http(server: _Server, client: Client, batching: Client) -> list[Decoder]:
    def answered(data: bytes, call: Callable[[], object]) -> None:
        server.answer = data
        call()

    def listed(data: bytes) -> None:
        answered(data, lambda: client.list(PODS, "ns", decode_pod))

    def patched(data: bytes) -> None:
        # A write is repeated in no case but 429 with a time, which is not asked for here.
        answered(data, lambda: client.patch(TFJOBS, "ns", "a", {}, decode_tfjob))

    def watched(by: Client, data: bytes) -> None:
        def watch() -> None:
            with by.watch(PODS, "ns", decode_pod) as stream:
                list(stream)

        answered(data, watch)

    lock = LeaseLock(client, namespace="ns", name="a", identity="me")
    page, job, lease, failure = as_json(LIST), jobs()[0], as_json(LEASE), as_json(STATUS)
    failures = (_answer(failure, "422 Unprocessable Entity"), _answer(b"<html>", "502 Bad Gateway"))
    return [
        Decoder("http list", (_answer(page), _answer(page, chunked=True), *failures), listed, (KubeError,), 0.3),
        Decoder("http patch", (_answer(job), _answer(job, chunked=True), *failures), patched, (KubeError,), 0.3),
        Decoder("http lease", (_answer(lease), *failures), lambda d: answered(d, lock.get), LEASE_ERRORS, 0.3),
        Decoder("http watch", (_answer(WATCH, chunked=True), *failures), partial(watched, client), (KubeError,), 0.3),
        Decoder("batched watch", (_answer(WATCH, chunked=True),), partial(watched, batching), (KubeError,), 0.3),
    ]
