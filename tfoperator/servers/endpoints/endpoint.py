"""The HTTP endpoints `/healthz`, `/readyz` and `/metrics`. They serve only GET, and only these paths."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from tfoperator.servers.http.limits import Address, Limits
from tfoperator.servers.http.messages import Answer, Refusal, Request
from tfoperator.servers.http.server import HttpServer

LIMITS = Limits(connections=512, per_source=16, request_seconds=5.0)
"""The limits for the clients of an endpoint. A kubelet makes at most two probes at the same time, and a Prometheus
makes one request.
"""


class _Page:
    """Makes the content of a path, such as `/metrics`, in a separate thread, so that other paths do not wait for it.

    While the thread makes the content, further requests wait, and then all of them get the next content. Therefore, any
    number of clients causes no more work than a single client that repeats its request.
    """

    def __init__(self, make: Callable[[], Answer], path: str) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"http{path.replace('/', '-')}")
        self._free = asyncio.Lock()
        self._next: asyncio.Future[Answer] | None = None

    async def get(self) -> Answer:
        if self._next is None:
            self._next = asyncio.ensure_future(self._make_next())
        return await asyncio.shield(self._next)

    async def _make_next(self) -> Answer:
        async with self._free:
            self._next = None
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._make)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


class Endpoint(HttpServer):
    """Responds to GET requests for some paths at an address. Call `start()` once, then `stop()`."""

    def __init__(
        self, address: Address, routes: Mapping[str, Callable[[], Answer]], *, name: str, limits: Limits = LIMITS
    ) -> None:
        """Listen on the address. With port 0, select a free port. Raises ListenError if that is impossible.

        `routes` has for each path the function that makes its content. Another thread calls this function.
        """
        self._pages = {path: _Page(make, path) for path, make in routes.items()}
        super().__init__(address.host, address.port, name=name, limits=limits)

    def serves(self, request: Request) -> bool:
        """Return whether this is a GET request for a path that the endpoint has."""
        return request.method == "GET" and request.path in self._pages

    async def respond(self, request: Request) -> Answer:
        """Return the content of the request's path, or 404. Raises Refusal if the method is not GET."""
        if request.method != "GET":
            raise Refusal(HTTPStatus.NOT_IMPLEMENTED, "method", "only GET is allowed here")
        page = self._pages.get(request.path)
        return await page.get() if page else Answer(b"not found\n", HTTPStatus.NOT_FOUND)

    def stop(self) -> None:
        """Stop listening, and end waiting requests and all threads. Idempotent."""
        super().stop()
        for page in self._pages.values():
            page.close()
