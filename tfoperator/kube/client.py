"""A client of an API server over HTTP.

A session is a set of connections that are opened and closed together. The client sends requests, and the watches that
`watch` opens, on one session. Each `ListWatch` has its own session. The client also calls the subresources `log`
and `exec` of pods, and `stacks`, which only the API server of `tfoperator local up` has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.http.connections.destination import find_destination
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.http.connections.transport import Transport
from tfoperator.kube.http.sending.requests import Call, describe, object_path, query_string
from tfoperator.kube.http.sending.session import Session
from tfoperator.kube.http.verbs import HttpVerbs
from tfoperator.kube.protocol.observer import RequestObserver
from tfoperator.kube.protocol.resources import PODS, Resource

if TYPE_CHECKING:
    from tfoperator.kube.http.sending.exec import Executed

DEFAULT_BURST = 100
"""The number of requests that may be sent at once before the rate limit applies. By default a client has no rate limit.
"""

REQUEST_TIMEOUT = 60.0
"""The maximum number of seconds without any byte of a response. An API server itself aborts a request after 60 s (its
default `--request-timeout`).
"""
WATCH_READ_DEADLINE = 90.0
"""The maximum number of seconds in which a watch receives neither an event nor a bookmark. API servers send a bookmark
every 60 to 75 s.
"""

DEFAULT_PARALLELISM = 16
"""The number of chains that `Client.send` runs at the same time. A chain is a list of requests that are sent one after
another.
"""


class RateLimit(msgspec.Struct, frozen=True):
    """A client-side limit of `qps` requests per second on average; up to `burst` requests in a row are not delayed."""

    qps: float
    burst: int = DEFAULT_BURST


class WatchPace(msgspec.Struct, frozen=True):
    """The timing of watches, in seconds.

    A watch that receives no data for `read_deadline` ends with `SilentWatch`. A busy watch wakes its thread once per
    `batch_period`, for all events since the last time. With a `batch_period` of 0 it wakes its thread for each event.
    """

    read_deadline: float = WATCH_READ_DEADLINE
    batch_period: float = 0.0


EACH_EVENT = WatchPace()
"""By default a watch wakes its thread for each event."""


class Client(HttpVerbs):
    """A `kube.protocol.verbs.ApiClient` over HTTP.

    A client is also a context manager, and thread-safe: one client per process is enough. Do not call `send` after a
    fork, because its threads exist only in the parent process.

    - `limit`: if its rate is positive, all requests except watches are limited to this rate. By default the client has
      no rate limit, as in controller-runtime since 0.21: API servers have priority and fairness, and the client waits
      for the time in the `Retry-After` header of a 429 response.
    - `request_timeout`: the maximum number of seconds without any byte of a response. A whole request may take five
      times as long. Leader election uses a short `request_timeout`.
    - `parallelism`: the maximum number of chains that `send` runs concurrently. The requests of a chain are sent one
      after the other.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        limit: RateLimit | None = None,
        user_agent: str = "",
        request_timeout: float = REQUEST_TIMEOUT,
        watches: WatchPace = EACH_EVENT,
        parallelism: int = DEFAULT_PARALLELISM,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        clock, observer = clock or SystemClock(), observer or RequestObserver()
        limiter = TokenBucket(limit.qps, limit.burst, clock=clock) if limit is not None and limit.qps > 0 else None
        destination = find_destination(config.server, config.tls, clock=clock, proxy_url=config.proxy_url)

        def connect() -> Session:
            # All sessions of this client share the rate limit, the credentials and the TLS contexts.
            transport = Transport(destination, timeout=request_timeout, parallelism=parallelism, clock=clock)
            return Session(
                config, limiter=limiter, observer=observer, transport=transport, user_agent=user_agent, clock=clock
            )

        super().__init__(
            connect, clock, parallelism, read_deadline=watches.read_deadline, batch_period=watches.batch_period
        )
        self._request_timeout = request_timeout
        self.server = config.server
        self.namespace = config.namespace
        """The namespace in the configuration. It is used if the user names no namespace."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    # Not part of ApiClient.

    def delete_collection(self, resource: Resource, namespace: str, *, label_selector: str) -> None:
        """DELETE every object that the (non-empty) selector matches."""
        if not label_selector or (resource.namespaced and not namespace):
            raise ValueError("deleting a collection needs a namespace and a label selector: refusing to delete it all")
        target = resource.path(namespace) + query_string(labelSelector=label_selector)
        self._session.call(Call("DELETE", target, describe("delete all", resource, namespace)))

    def get_raw(self, path: str, *, accept: str = "application/json") -> bytes:
        """GET any path with its query, for example `/version` or `/readyz`. Return the body unparsed."""
        return self._session.call(Call("GET", path, f"get {path}", accept=accept)).body

    def pod_log(
        self,
        namespace: str,
        name: str,
        container: str = "",
        *,
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        since: str | int | None = None,
        timestamps: bool = False,
    ) -> ByteStream:
        """Return the present log of a container (by default of the pod's only container).

        With `follow`, continue until the log ends. With `previous`, return the log of the container's previous run,
        before its last restart. `since` is a time in RFC 3339, or a number of seconds before the current time on the
        server's clock. With `timestamps` each line begins with the time at which the program wrote this line. Raises
        KubeError, for example with status 400 if the container has not started.
        """
        query = query_string(
            container=container,
            follow="true" if follow else "",
            previous="true" if previous else "",
            tailLines="" if tail_lines is None else str(tail_lines),
            sinceTime=since if isinstance(since, str) else "",
            sinceSeconds=str(since) if isinstance(since, int) else "",
            timestamps="true" if timestamps else "",
        )
        target = object_path(PODS, namespace, name, "log") + query
        stream = self._session.stream(Call("GET", target, describe("get", PODS, namespace, name, "log"), accept="*/*"))
        # A program may be silent for hours: with `follow`, only TCP keepalive detects a dead server.
        stream.patience = None if follow else self._request_timeout
        return stream

    def pod_exec(
        self,
        namespace: str,
        name: str,
        container: str,
        command: Sequence[str],
        *,
        timeout: float = 60.0,
        max_bytes: int = 16 << 20,
    ) -> Executed:
        """Run a command in a container, and return its output and exit code.

        The command has no stdin and no terminal. `max_bytes` limits the length of stdout and the length of stderr: the
        output after this limit is dropped. Raises KubeError if the server refuses the request, the connection breaks,
        or the whole run takes longer than `timeout` seconds.
        """
        query = query_string(container=container, stdout="true", stderr="true")
        query += "".join(f"&command={quote(word, safe='')}" for word in command)
        target = object_path(PODS, namespace, name, "exec") + query
        call = Call("GET", target, describe("run a command in", PODS, namespace, name, "exec"), accept="*/*")
        return self._session.execute(call, timeout=timeout, max_bytes=max_bytes)

    def pod_stacks(self, namespace: str, name: str, container: str) -> str:
        """Return the stacks of a container's Python threads.

        Only `tfoperator local up` serves this request; other API servers respond with 404. Raises KubeError.
        """
        target = object_path(PODS, namespace, name, "stacks") + query_string(container=container)
        call = Call("GET", target, describe("get", PODS, namespace, name, "stacks"), accept="*/*")
        with self._session.stream(call) as pieces:
            return b"".join(pieces).decode(errors="replace")
