"""The verbs of an API server for other packages: protocols and values, no I/O of its own.

Components depend on these protocols, so tests can pass a fake and the transport can be replaced.
`tfoperator.kube.client.Client` is the implementation over HTTP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.options import (
    EVERYTHING,
    LIST_ALL,
    WATCH_FROM_NOW,
    ListOptions,
    Selection,
    WatchOptions,
    select,
)
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, PartialObject, decode_nothing

T = TypeVar("T")
ViewT = TypeVar("ViewT", bound=HasMetadata)

Body = bytes | Mapping[str, Any]
"""The body of a write: encoded JSON, or a mapping that is encoded as JSON."""

Decoder = Callable[[bytes], T]
"""Turns the JSON of one object into a typed view; raises msgspec.DecodeError (or its subclass) if it can't."""


def decoder(view: type[T]) -> Decoder[T]:
    """Return a reusable decoder for a msgspec Struct type (building one is expensive: reuse it)."""
    return msgspec.json.Decoder(view).decode


class WithJson(HasMetadata, Generic[ViewT], frozen=True, kw_only=True):
    """An object, decoded and as the server sent it."""

    view: ViewT
    raw: bytes


def with_json(decode: Decoder[ViewT]) -> Decoder[WithJson[ViewT]]:
    """Return a decoder that keeps the JSON."""

    def decode_and_keep(data: bytes) -> WithJson[ViewT]:
        view = decode(data)
        return WithJson(metadata=view.metadata, view=view, raw=bytes(data))

    return decode_and_keep


decode_metadata: Decoder[PartialObject] = decoder(PartialObject)
"""Decode an object's metadata: all of it, with nothing shared, unlike caches. A client then requests only metadata."""

decode_plain: Decoder[dict[str, Any]] = decoder(dict[str, Any])
"""Decode an object completely, as plain data."""


class PatchType(StrEnum):
    """The content types of a PATCH that API servers know."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class ListPage(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. `continue_token` is empty on the last page."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = ""
    remaining_item_count: int | None = None


class WatchEventType(StrEnum):
    """The types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One event of a watch.

    ADDED, MODIFIED and DELETED carry `object`. BOOKMARK carries only `resource_version`, and `initial_events_end`
    when its annotation `k8s.io/initial-events-end` is "true".
    """

    type: WatchEventType
    object: T | None = None
    resource_version: str = ""
    initial_events_end: bool = False


class WatchStream(Protocol[T]):
    """A running watch: iterate over it in one thread, `close()` it from any.

    Iteration ends normally when the server closes the stream cleanly or when `close()` was called. It raises
    `TransportError` when the connection breaks, a read deadline passes (no event or bookmark for too long), or
    a line can't be decoded, and the `ApiError` of an ERROR event (e.g. 410).
    """

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """Yield events in order."""
        ...

    def batches(self) -> Iterator[Sequence[WatchEvent[T]]]:
        """Yield the same events in batches of events received together, about a hundred at most.

        An error is raised after the events before it.
        """
        ...

    def close(self) -> None:
        """End the watch and its socket at once, waking a reader. Idempotent, thread-safe, does not block."""
        ...


class Creation(msgspec.Struct, frozen=True):
    """The POST of an object. With `dry_run` the server checks and completes it, but stores nothing."""

    resource: Resource
    namespace: str
    body: Body
    dry_run: bool = False


class Deletion(msgspec.Struct, frozen=True):
    """The DELETE of an object; `uid` and `resource_version` are preconditions (409 when they don't hold)."""

    resource: Resource
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str = ""


class Modification(msgspec.Struct, frozen=True):
    """The PATCH of an object or of a subresource."""

    resource: Resource
    namespace: str
    name: str
    patch: Body | Sequence[Any]
    patch_type: PatchType = PatchType.MERGE
    subresource: str = ""


class Replacement(msgspec.Struct, frozen=True):
    """The PUT of an object or of a subresource."""

    resource: Resource
    namespace: str
    name: str
    body: Body
    subresource: str = ""


class Lookup(msgspec.Struct, frozen=True):
    """The GET of an object. In a chain it gets the object's metadata alone, and is the last request."""

    resource: Resource
    namespace: str
    name: str


Request = Creation | Deletion | Modification | Replacement | Lookup


class Warned(msgspec.Struct, frozen=True):
    """A successful write with warnings of the server: about unknown fields that it has dropped, for example."""

    texts: tuple[str, ...]


Answer = ObjectMeta | Warned | None | KubeError
"""The result of a request: the metadata that was looked up, None or Warned for a successful write, or the error."""


class ApiClient(ABC):
    """The verbs on an API server. Thread-safe. Every method may raise `KubeError` (see `errors`).

    `namespace` is "" for cluster-scoped resources and, in list and watch, for all namespaces. Objects come
    back decoded by `decode`. A write is retried only if the server has certainly not processed it, so a create is never
    repeated once the server may have acted on it.
    """

    @property
    @abstractmethod
    def parallelism(self) -> int:
        """The maximum number of concurrent chains of requests, over all callers of `send`."""

    @abstractmethod
    def send(self, chains: Sequence[Sequence[Request]]) -> list[list[Answer]]:
        """Make the requests of each chain in order up to its first failure; the chains concurrently.

        Returns for each chain the results of its requests; raises no KubeError. A chain has at least one request. A
        single chain is sent by the caller's own thread.
        """

    @abstractmethod
    def make(self, request: Request, decode: Decoder[T]) -> T:
        """Make one request; return the object in the answer."""

    def get(self, resource: Resource, namespace: str, name: str, decode: Decoder[T]) -> T:
        """GET one object."""
        return self.make(Lookup(resource, namespace, name), decode)

    def create(self, resource: Resource, namespace: str, body: Body, decode: Decoder[T], *, dry_run: bool = False) -> T:
        """POST an object. With `dry_run` the server checks and completes it, but stores nothing."""
        return self.make(Creation(resource, namespace, body, dry_run), decode)

    def replace(
        self, resource: Resource, namespace: str, name: str, body: Body, decode: Decoder[T], *, subresource: str = ""
    ) -> T:
        """PUT an object or a subresource."""
        return self.make(Replacement(resource, namespace, name, body, subresource), decode)

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
        return self.make(Modification(resource, namespace, name, patch, patch_type, subresource), decode)

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
        options = uid, resource_version, grace_period_seconds, propagation_policy
        self.make(Deletion(resource, namespace, name, *options), decode_nothing)

    @abstractmethod
    def list(
        self, resource: Resource, namespace: str, decode: Decoder[T], options: ListOptions = LIST_ALL
    ) -> ListPage[T]:
        """GET one page."""

    @abstractmethod
    def watch(
        self, resource: Resource, namespace: str, decode: Decoder[T], options: WatchOptions = WATCH_FROM_NOW
    ) -> WatchStream[T]:
        """Open a watch on a connection of its own."""

    @abstractmethod
    def list_watch(
        self, resource: Resource, namespace: str, decode: Decoder[T], selection: Selection = EVERYTHING
    ) -> ListWatch[T]:
        """Return a ListWatch for one selection of a resource, for a reflector."""


class ListWatch(Generic[T]):
    """Lists and watches one selection of a resource, for a reflector. Thread-safe."""

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        selection: Selection = EVERYTHING,
        *,
        cancel: Callable[[], None] = lambda: None,
    ) -> None:
        """`cancel` ends all requests of `client`, which must serve this selection only."""
        self._client = client
        self._objects = (resource, namespace, decode)
        self._selection = selection
        self._cancel = cancel

    def cancel(self) -> None:
        """Make current (waiting, connecting, reading) and future requests raise ClientClosed, if it can; end watches.

        Idempotent, never blocks. Where it can't, a reflector stops at the latest by the transport's own deadline.
        """
        self._cancel()

    def list(self, options: ListOptions = LIST_ALL) -> ListPage[T]:
        """Return a page of the selection; see `ApiClient.list`."""
        return self._client.list(*self._objects, select(options, self._selection))

    def watch(self, options: WatchOptions = WATCH_FROM_NOW) -> WatchStream[T]:
        """Follow the selection; see `ApiClient.watch`."""
        return self._client.watch(*self._objects, select(options, self._selection))
