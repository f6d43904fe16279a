"""The verbs of an API server over HTTP: which path and parameters a verb has, and what its answer decodes to."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.errors import UNDECODABLE, KubeError, MalformedResponse
from tfoperator.kube.http.answer import Response
from tfoperator.kube.http.multiplexer import Multiplexer
from tfoperator.kube.http.requests import (
    describe,
    encode,
    kind_of,
    list_query,
    name_in,
    object_path,
    query_string,
    watch_query,
)
from tfoperator.kube.http.session import Call, Session
from tfoperator.kube.http.transport import MAX_RESPONSE_BYTES, Transport
from tfoperator.kube.identity import decode_identity
from tfoperator.kube.list_watch import ListWatch
from tfoperator.kube.log_stream import LogStream
from tfoperator.kube.nesting import decode_what_can_be_followed
from tfoperator.kube.objects import decode_nothing
from tfoperator.kube.observer import RequestObserver
from tfoperator.kube.options import EVERYTHING, LIST_ALL, WATCH_FROM_NOW, ListOptions, Selection, WatchOptions
from tfoperator.kube.resources import PODS, Resource
from tfoperator.kube.verbs import Body, Creation, Decoder, ListerWatcher, ListPage, PatchType
from tfoperator.kube.watch import MAX_LINE_BYTES, HttpWatch

if TYPE_CHECKING:
    from tfoperator.kube.http.exec import Executed

T = TypeVar("T")

DEFAULT_BURST = 100
"""Requests at once before a rate limit holds, where one is asked for."""

REQUEST_TIMEOUT = 60.0
"""Seconds without a byte of an answer; an API server itself gives up after 60."""
WATCH_READ_DEADLINE = 90.0
"""Seconds without event or bookmark: API servers send bookmarks every 60 s, plus up to a quarter."""
WATCH_GRACE = 30.0
"""Seconds by which a watch may outlive its timeoutSeconds."""

_JSON = "application/json"
_METADATA_OF_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_METADATA_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _Page(msgspec.Struct):
    """A list, its items left as they came: each is decoded from a copy of its own, so that none keeps the page."""

    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode


def _accepted(decode: Decoder[Any]) -> str:
    # An API server spends less on an answer of which nobody reads more if it is asked for metadata alone: for a pod
    # 3.1 kB become 1.8 kB, and its spec is not encoded.
    return _METADATA_OF_ONE if decode is decode_nothing or decode is decode_identity else _JSON


@lru_cache(1 << 10)  # asked for each object that is created, and there are few kinds of them in a namespace
def _path_of_all(resource: Resource, namespace: str) -> str:
    return resource.path(namespace)


def _create(resource: Resource, namespace: str, body: Body, accept: str, *, dry_run: bool = False) -> Call:
    return Call(
        "POST",
        _path_of_all(resource, namespace) + (query_string(dryRun="All") if dry_run else ""),
        describe("create", resource, namespace, name_in(body)),
        encode(body),
        accept=accept,
        written=kind_of(resource),
    )


class HttpCreator:
    """A `tfoperator.kube.verbs.Creator` over HTTP."""

    def __init__(self, multiplexer: Multiplexer) -> None:
        self._multiplexer = multiplexer

    def create_chains(self, chains: Sequence[Sequence[Creation]]) -> list[list[KubeError | None]]:
        """POST what is in each chain up to the first failure, the chains beside each other."""
        calls = [
            [_create(one.resource, one.namespace, one.body, _METADATA_OF_ONE) for one in chain] for chain in chains
        ]
        results = self._multiplexer.run(calls)
        return [[one if isinstance(one, KubeError) else None for one in chain] for chain in results]

    def close(self) -> None:
        """Wait for what is under way, and end the threads. Idempotent."""
        self._multiplexer.close()


class Client:
    """An `tfoperator.kube.verbs.ApiClient` over HTTP; also a context manager. Thread-safe: one per process will do.

    There is no client-side rate limit, as in controller-runtime since 0.21: API servers have priority and fairness, and
    when they ask for patience (429 with `Retry-After`) they get it. With a positive `qps` requests, watches apart, wait
    for such a limit.
    `request_timeout` is how long a request may go without a byte of an answer, and a fifth of what all of it may take:
    leader election wants it short.
    With a `watch_batch_period` (seconds) busy watches wake that often only, for all events that have come meanwhile.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        qps: float = 0.0,
        burst: int = DEFAULT_BURST,
        user_agent: str = "",
        request_timeout: float = REQUEST_TIMEOUT,
        watch_read_deadline: float = WATCH_READ_DEADLINE,
        watch_grace: float = WATCH_GRACE,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        max_watch_line_bytes: int = MAX_LINE_BYTES,
        watch_batch_period: float = 0.0,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._request_timeout = request_timeout
        self._watch_read_deadline = watch_read_deadline
        self._watch_grace = watch_grace
        self._max_watch_line_bytes = max_watch_line_bytes
        self._watch_batch_period = watch_batch_period
        self._session = Session(
            config,
            limiter=TokenBucket(qps, burst, clock=self._clock),
            observer=observer or RequestObserver(),
            transport=Transport(
                config.server,
                config.tls,
                proxy_url=config.proxy_url,
                timeout=request_timeout,
                max_response_bytes=max_response_bytes,
                clock=self._clock,
            ),
            user_agent=user_agent,
            clock=self._clock,
        )
        self._lock = threading.Lock()  # guards the fields below
        self._closed = False
        self._siblings: list[Session] = []
        self.server = config.server
        self.namespace = config.namespace
        """The namespace that the configuration names for when the user names none."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    def close(self) -> None:
        """End everything at once: requests raise ClientClosed, watches and logs end. Idempotent, from any thread."""
        with self._lock:
            self._closed = True
            sessions = [self._session, *self._siblings]
        for session in sessions:
            session.close()

    # Verbs: see ApiClient.

    def get(self, resource: Resource, namespace: str, name: str, decode: Decoder[T]) -> T:
        """GET one object."""
        call = Call("GET", object_path(resource, namespace, name), describe("get", resource, namespace, name))
        return self._decoded(call, decode)

    def list(
        self,
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        options: ListOptions = LIST_ALL,
        *,
        metadata_only: bool = False,
    ) -> ListPage[T]:
        """GET one page. With `metadata_only` the server sends PartialObjectMetadata items."""
        call = Call(
            "GET",
            resource.path(namespace) + list_query(options),
            describe("list", resource, namespace),
            accept=_METADATA_OF_LIST if metadata_only else _JSON,
        )
        page = self._decoded(call, lambda body: decode_what_can_be_followed(_decode_page, body))
        try:
            items = tuple([decode_what_can_be_followed(decode, bytes(item)) for item in page.items or ()])
        except UNDECODABLE as error:
            raise MalformedResponse(f"{call.what}: an item can't be decoded: {error}") from error
        meta = page.metadata
        return ListPage(items, meta.resource_version, meta.continue_token, meta.remaining_item_count)

    def create(self, resource: Resource, namespace: str, body: Body, decode: Decoder[T], *, dry_run: bool = False) -> T:
        """POST an object. With `dry_run` the server checks and completes it, but stores nothing."""
        return self._decoded(_create(resource, namespace, body, _accepted(decode), dry_run=dry_run), decode)

    def creator(self, parallelism: int) -> HttpCreator:
        """What creates many objects at a time, with so many requests under way. Close it after use."""
        return HttpCreator(Multiplexer(self._session, parallelism))

    def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Body,
        decode: Decoder[T],
        *,
        subresource: str = "",
    ) -> T:
        """PUT an object or a subresource."""
        path = object_path(resource, namespace, name, subresource)
        call = Call(
            "PUT",
            path,
            describe("replace", resource, namespace, name, subresource),
            encode(body),
            accept=_accepted(decode),
            written=kind_of(resource, subresource),
        )
        return self._decoded(call, decode)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        decode: Decoder[T],
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> T:
        """PATCH an object or a subresource."""
        call = Call(
            "PATCH",
            object_path(resource, namespace, name, subresource),
            describe("patch", resource, namespace, name, subresource),
            encode(patch),
            accept=_accepted(decode),
            content_type=patch_type.value,
            written=kind_of(resource, subresource),
        )
        return self._decoded(call, decode)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        """DELETE one object; `uid` and `resource_version` are preconditions (409 when they don't hold)."""
        options: dict[str, Any] = {}
        if preconditions := {
            key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value
        }:
            options["preconditions"] = preconditions
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy:
            options["propagationPolicy"] = propagation_policy
        body = encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}) if options else None
        path = object_path(resource, namespace, name)
        what = describe("delete", resource, namespace, name)
        self._session.call(Call("DELETE", path, what, body, _METADATA_OF_ONE, written=kind_of(resource)))

    def delete_collection(self, resource: Resource, namespace: str, *, label_selector: str) -> None:
        """DELETE every object that the (non-empty) selector matches."""
        if not label_selector or (resource.namespaced and not namespace):
            raise ValueError("deleting a collection needs a namespace and a label selector: refusing to delete it all")
        target = resource.path(namespace) + query_string(labelSelector=label_selector)
        self._session.call(Call("DELETE", target, describe("delete all", resource, namespace)))

    def watch(
        self,
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        options: WatchOptions = WATCH_FROM_NOW,
    ) -> HttpWatch[T]:
        """Open a watch on a connection of its own. Without bookmarks, silence is no sign of a broken connection."""
        what = describe("watch", resource, namespace)
        target = resource.path(namespace) + watch_query(options)
        stream = self._session.stream(Call("GET", target, what, accept=_accepted(decode), limited=False))
        return HttpWatch(
            stream,
            decode,
            what=what,
            read_deadline=self._watch_read_deadline if options.allow_watch_bookmarks else None,
            total_deadline=options.timeout_seconds + self._watch_grace,
            clock=self._clock,
            max_line_bytes=self._max_watch_line_bytes,
            batch_period=self._watch_batch_period,
            begins_with_state=bool(options.send_initial_events),
        )

    def list_watch(
        self,
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        selection: Selection = EVERYTHING,
    ) -> ListerWatcher[T]:
        """A ListerWatcher for one selection of a resource, for a reflector.

        It has connections of its own, which its `cancel()` closes without disturbing anybody else's requests.
        """
        own = copy.copy(self)
        own._session = self._session.sibling()
        with self._lock:
            self._siblings.append(own._session)
            closed = self._closed
        if closed:
            own._session.close()
        return ListWatch(own, resource, namespace, decode, selection, cancel=own._session.close)

    # Beyond ApiClient.

    def get_raw(self, path: str, *, accept: str = "application/json") -> bytes:
        """GET any path, with its query, e.g. `/version` or `/readyz`; the answer as it came."""
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
        since_time: str = "",
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> LogStream:
        """The log of a container (that of a pod's only one if not named), as far as it is there or, with `follow`, on.

        `previous` is the log of the container's last run. `since_time` is in RFC 3339; instead of it `since_seconds`
        is counted back by the server's clock.
        With `timestamps` each line begins with the time at which it was written. Raises KubeError, e.g. 400 if the
        container has not started.
        """
        query = query_string(
            container=container,
            follow="true" if follow else "",
            previous="true" if previous else "",
            tailLines="" if tail_lines is None else str(tail_lines),
            sinceTime=since_time,
            sinceSeconds="" if since_seconds is None else str(since_seconds),
            timestamps="true" if timestamps else "",
        )
        target = object_path(PODS, namespace, name, "log") + query
        stream = self._session.stream(Call("GET", target, describe("get", PODS, namespace, name, "log"), accept="*/*"))
        # A program may be silent for hours: with `follow`, only TCP keepalive tells that the server is gone.
        return LogStream(stream, None if follow else self._request_timeout)

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
        """Run a command in a container, and return what it wrote and how it ended. Raises KubeError.

        It has no input and no terminal. `timeout` (seconds) is for all of it, `max_bytes` for each of its two outputs.
        """
        query = query_string(container=container, stdout="true", stderr="true")
        query += "".join(f"&command={quote(word, safe='')}" for word in command)
        target = object_path(PODS, namespace, name, "exec") + query
        call = Call("GET", target, describe("run a command in", PODS, namespace, name, "exec"), accept="*/*")
        return self._session.execute(call, timeout=timeout, max_bytes=max_bytes)

    def pod_stacks(self, namespace: str, name: str, container: str) -> str:
        """The stacks of a container's Python threads, from the control plane of `tfoperator local up`; others say 404.

        Raises KubeError.
        """
        target = object_path(PODS, namespace, name, "stacks") + query_string(container=container)
        stream = self._session.stream(
            Call("GET", target, describe("get", PODS, namespace, name, "stacks"), accept="*/*")
        )
        with LogStream(stream, None) as pieces:
            return b"".join(pieces).decode(errors="replace")

    def _decoded(self, call: Call, decode: Decoder[T]) -> T:
        answer: Response = self._session.call(call)
        try:
            return decode(answer.body)
        except UNDECODABLE as error:
            raise MalformedResponse(f"{call.what}: the answer can't be decoded: {error}") from error
