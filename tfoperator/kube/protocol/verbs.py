"""The verbs of an API server, for other packages: protocols and values, without I/O.

Components depend only on these protocols. So tests can pass a fake client. `tfoperator.kube.client.Client` is the
implementation over HTTP.
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
"""Converts the JSON of one object into a typed view. A decoder raises msgspec.DecodeError (or a subclass) if the
conversion is impossible.
"""


def decoder(view: type[T]) -> Decoder[T]:
    """Return a decoder for a msgspec Struct type.

    Keep the decoder and use it for many objects, because building it is expensive.
    """
    return msgspec.json.Decoder(view).decode


class WithJson(HasMetadata, Generic[ViewT], frozen=True, kw_only=True):
    """An object, both decoded and as the JSON that the server sent."""

    view: ViewT
    raw: bytes


def with_json(decode: Decoder[ViewT]) -> Decoder[WithJson[ViewT]]:
    """Return a decoder whose result contains the result of `decode` and also the JSON."""

    def decode_and_keep(data: bytes) -> WithJson[ViewT]:
        view = decode(data)
        return WithJson(metadata=view.metadata, view=view, raw=bytes(data))

    return decode_and_keep


decode_metadata: Decoder[PartialObject] = decoder(PartialObject)
"""Decode all metadata of an object, also the labels and annotations that `views.objects.decode_partial` leaves out. A
client that gets this decoder requests only the metadata from the server.
"""

decode_plain: Decoder[dict[str, Any]] = decoder(dict[str, Any])
"""Decode an object completely, as plain data."""


class PatchType(StrEnum):
    """The content types of a PATCH that API servers accept."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class ListPage(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. On the last page `continue_token` is empty."""

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

    The events ADDED, MODIFIED and DELETED contain `object`. BOOKMARK contains no object, but a `resource_version`.
    `initial_events_end` is True if the bookmark has the annotation `k8s.io/initial-events-end` with the value "true".
    """

    type: WatchEventType
    object: T | None = None
    resource_version: str = ""
    initial_events_end: bool = False


class WatchStream(Protocol[T]):
    """A running watch. One thread iterates over it, and any thread may call `close()`.

    Iteration ends normally if the server closes the stream without an error, or if `close()` was called. Iteration
    raises `TransportError` if the connection breaks, if no event or bookmark arrives before the read deadline, or if a
    line can't be decoded. For an ERROR event it raises the event's `ApiError` (for example 410).
    """

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        """Yield events in order."""
        ...

    def batches(self) -> Iterator[Sequence[WatchEvent[T]]]:
        """Yield the events in batches, as an alternative to `__iter__`.

        A batch contains events that were received together, at most about a hundred. If an error follows some events,
        first yield these events, then raise the error.
        """
        ...

    def close(self) -> None:
        """End the watch and its socket at once, and wake the thread that reads it.

        Idempotent, thread-safe, does not block.
        """
        ...


class Creation(msgspec.Struct, frozen=True):
    """The POST that creates an object.

    With `dry_run` the server checks the object and sets defaults, but stores nothing.
    """

    resource: Resource
    namespace: str
    body: Body
    dry_run: bool = False


class Deletion(msgspec.Struct, frozen=True):
    """The DELETE of an object.

    `uid` and `resource_version` are preconditions (the server responds with 409 if they don't match).
    """

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
    """The GET of an object.

    In a chain (`ApiClient.send`) it returns only the object's metadata, and must be the last request.
    """

    resource: Resource
    namespace: str
    name: str


Request = Creation | Deletion | Modification | Replacement | Lookup


class Warned(msgspec.Struct, frozen=True):
    """A write that succeeded with warnings from the server.

    For example, a warning names unknown fields that the server has dropped.
    """

    texts: tuple[str, ...]


Answer = ObjectMeta | Warned | None | KubeError
"""The result of a request: metadata for a GET, None or Warned for a successful write, or else the error."""


class ApiClient(ABC):
    """The verbs on an API server. Thread-safe. Every method may raise `KubeError` (see `errors`).

    `namespace` is "" for cluster-scoped resources. In list and watch, "" also means all namespaces. `decode` decodes
    the objects that a method returns. The client retries a write only if the server has certainly not processed it. So
    the client never creates an object twice.
    """

    @property
    @abstractmethod
    def parallelism(self) -> int:
        """The maximum number of chains (see `send`) that run concurrently, over all callers of `send`."""

    @abstractmethod
    def send(self, chains: Sequence[Sequence[Request]]) -> list[list[Answer]]:
        """Make the requests of each chain in order, up to the chain's first failure. The chains run concurrently.

        Return for each chain the results of its requests. The last result may be a KubeError: this method raises none.
        A chain has at least one request. If there is only one chain, the caller's own thread sends it.
        """

    @abstractmethod
    def make(self, request: Request, decode: Decoder[T]) -> T:
        """Make one request. Return the object in the response."""

    def get(self, resource: Resource, namespace: str, name: str, decode: Decoder[T]) -> T:
        """GET one object."""
        return self.make(Lookup(resource, namespace, name), decode)

    def create(self, resource: Resource, namespace: str, body: Body, decode: Decoder[T], *, dry_run: bool = False) -> T:
        """POST an object. With `dry_run` the server checks the object and sets defaults, but stores nothing."""
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
        """DELETE one object.

        `uid` and `resource_version` are preconditions (the server responds with 409 if they don't match).
        """
        options = uid, resource_version, grace_period_seconds, propagation_policy
        self.make(Deletion(resource, namespace, name, *options), decode_nothing)

    @abstractmethod
    def list(
        self, resource: Resource, namespace: str, decode: Decoder[T], options: ListOptions = LIST_ALL
    ) -> ListPage[T]:
        """GET one page of a list. `options.continue_token` selects the page."""

    @abstractmethod
    def watch(
        self, resource: Resource, namespace: str, decode: Decoder[T], options: WatchOptions = WATCH_FROM_NOW
    ) -> WatchStream[T]:
        """Open a watch on its own connection."""

    @abstractmethod
    def list_watch(
        self, resource: Resource, namespace: str, decode: Decoder[T], selection: Selection = EVERYTHING
    ) -> ListWatch[T]:
        """Return a ListWatch, with which a reflector lists and watches the objects of `selection`."""


class ListWatch(Generic[T]):
    """Lists and watches the objects that match `selection`, for a reflector. Thread-safe."""

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
        """`cancel` ends all requests of `client`, so other code must not use this client."""
        self._client = client
        self._objects = (resource, namespace, decode)
        self._selection = selection
        self._cancel = cancel

    def cancel(self) -> None:
        """Make current and future requests raise ClientClosed, if the transport can do this.

        This includes requests that wait, connect or read. The call also ends watches. Idempotent, never blocks. If the
        transport can't do this (`cancel` was not passed), a current request continues until its own time limit.
        """
        self._cancel()

    def list(self, options: ListOptions = LIST_ALL) -> ListPage[T]:
        """Return a page of the selected objects, as `ApiClient.list` does."""
        return self._client.list(*self._objects, select(options, self._selection))

    def watch(self, options: WatchOptions = WATCH_FROM_NOW) -> WatchStream[T]:
        """Watch the selected objects, as `ApiClient.watch` does."""
        return self._client.watch(*self._objects, select(options, self._selection))
