"""A client of an API server over HTTP: the verbs on one session, watches on separate sessions, and pod subresources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.http.destination import find_destination
from tfoperator.kube.http.requests import Call, describe, object_path, query_string
from tfoperator.kube.http.session import Session
from tfoperator.kube.http.stream import ByteStream
from tfoperator.kube.http.transport import Transport
from tfoperator.kube.http.verbs import HttpVerbs
from tfoperator.kube.protocol.observer import RequestObserver
from tfoperator.kube.protocol.resources import PODS, Resource

if TYPE_CHECKING:
    from tfoperator.kube.http.exec import Executed

DEFAULT_BURST = 100
"""The number of requests at once before a rate limit applies, if a limit is set."""

REQUEST_TIMEOUT = 60.0
"""Seconds without a byte of an answer; an API server itself gives up after 60 s."""
WATCH_READ_DEADLINE = 90.0
"""Seconds without event or bookmark: API servers send bookmarks every 60 s, plus up to a quarter."""

DEFAULT_PARALLELISM = 16
"""The number of chains of requests that may run at the same time."""


class RateLimit(msgspec.Struct, frozen=True):
    """A client-side limit of `qps` requests per second, which applies after `burst` requests at once."""

    qps: float
    burst: int = DEFAULT_BURST


class WatchPace(msgspec.Struct, frozen=True):
    """The pace of watches: how many seconds of silence end a watch, and how many lie between wake-ups of a busy watch.

    With a `batch_period` of 0 a watch wakes for each event.
    """

    read_deadline: float = WATCH_READ_DEADLINE
    batch_period: float = 0.0


EACH_EVENT = WatchPace()
"""A watch wakes for each event."""


class Client(HttpVerbs):
    """A `kube.protocol.verbs.ApiClient` over HTTP; also a context manager. Thread-safe: one per process is enough.

    By default there is no client-side rate limit, as in controller-runtime since 0.21: API servers have priority and
    fairness, and the client waits as long as the `Retry-After` of a 429 asks. With a `limit` of a positive rate, all
    requests except watches wait for it.
    `request_timeout` bounds the time without a byte of a response; a whole request may take five times that. Leader
    election uses a short `request_timeout`.
    `parallelism` is the maximum number of concurrent chains of requests in `send`. Do not `send` after a fork.
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
        """The namespace of the configuration, used when the user names none."""

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
        """GET any path, with its query, e.g. `/version` or `/readyz`; return the body unparsed."""
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
        """Return the log of a container (default: the pod's only one) up to now or, with `follow`, until it ends.

        With `previous` it is the log of the container's run before the present run. `since` is a time in RFC 3339, or
        a number of seconds before the present time of the server's clock. With `timestamps` each line begins with the
        time of writing. Raises KubeError, e.g. 400 if the container has not started.
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
        """Run a command in a container, and return its output and exit code. Raises KubeError.

        The command has no stdin and no terminal. `timeout` (seconds) bounds the whole run, `max_bytes` bounds stdout
        and stderr each.
        """
        query = query_string(container=container, stdout="true", stderr="true")
        query += "".join(f"&command={quote(word, safe='')}" for word in command)
        target = object_path(PODS, namespace, name, "exec") + query
        call = Call("GET", target, describe("run a command in", PODS, namespace, name, "exec"), accept="*/*")
        return self._session.execute(call, timeout=timeout, max_bytes=max_bytes)

    def pod_stacks(self, namespace: str, name: str, container: str) -> str:
        """Return the stacks of a container's Python threads; only `tfoperator local up` serves them, others answer 404.

        Raises KubeError.
        """
        target = object_path(PODS, namespace, name, "stacks") + query_string(container=container)
        call = Call("GET", target, describe("get", PODS, namespace, name, "stacks"), accept="*/*")
        with self._session.stream(call) as pieces:
            return b"".join(pieces).decode(errors="replace")
