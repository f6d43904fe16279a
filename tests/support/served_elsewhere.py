"""An embedded API server in a process of its own, so that a test can measure the operator's without the server's."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from hack.faults.injection.injector import FaultInjector
from hack.faults.injection.proxy import FaultProxy
from tfoperator.local.apiserver.server import EmbeddedApiServer

_SECONDS = 60.0


class ServerElsewhere:
    """A server behind a proxy that can end its watches; needs no credentials. For one thread."""

    def __init__(self, url: str, pipe: Connection) -> None:
        self.url = url
        self._pipe = pipe

    def close_watches(self) -> None:
        """End every watch cleanly, as API servers do after some minutes, and return when that is done."""
        self._pipe.send("close")
        assert self._pipe.poll(_SECONDS), "the server does not answer"
        self._pipe.recv()


def _serve(pipe: Connection) -> None:
    with (
        EmbeddedApiServer() as server,
        FaultProxy(server.url, server.token, FaultInjector("", {}, {}), certificate=server.certificate) as proxy,
    ):
        pipe.send(proxy.url)
        while pipe.recv() == "close":
            proxy.close_watches()
            pipe.send("closed")


@contextmanager
def server_elsewhere() -> Iterator[ServerElsewhere]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        assert ours.poll(_SECONDS), "the server does not start"
        yield ServerElsewhere(ours.recv(), ours)
        ours.send("stop")
        process.join(_SECONDS)
    finally:
        process.kill()
        process.join(_SECONDS)
        ours.close()
        theirs.close()
