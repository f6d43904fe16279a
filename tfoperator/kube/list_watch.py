"""Lists and watches of one selection; a whole list is read in pages, to bound the size of a response.

All pages of a snapshot have the version of the first one, and a watch continues from it: from an older
version it would repeat events, from a newer one than the data lose some. A continue token dies with etcd's compaction
(5 minutes by default). So a list that expires half-way is requested again as a whole, as client-go's pager does,
instead of from the start in pages, which could fail for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

from tfoperator.kube.errors import AnswerTooLarge, ApiError, ObjectTooLarge, is_expired
from tfoperator.kube.options import (
    EVERYTHING,
    LIST_ALL,
    WATCH_FROM_NOW,
    ListOptions,
    Selection,
    WatchOptions,
    select,
)
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Decoder, ListPage, WatchStream

T = TypeVar("T")

PAGE_SIZE: Final = 500
"""Objects per list request, as client-go's pager has it."""


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


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A whole collection at `resource_version`; `paged` if the server needed more than one page."""

    items: list[T]
    resource_version: str
    paged: bool


def list_pages(source: ListWatch[T], *, resource_version: str = "", limit: int | None = None) -> Iterator[ListPage[T]]:
    """Yield every page of one snapshot, at least one, each with the snapshot's version.

    `limit` objects a page (None: PAGE_SIZE, 0: all at once); half as many from where an answer is too large. Raises
    KubeError: 410 if the snapshot has expired, ObjectTooLarge for an object that no answer may hold.
    """
    limit = PAGE_SIZE if limit is None else limit
    token = snapshot = ""
    while True:
        # The token fixes the snapshot; a server refuses a resourceVersion beside it.
        version = "" if token else resource_version
        try:
            page = source.list(ListOptions(resource_version=version, limit=limit, continue_token=token))
        except AnswerTooLarge as error:
            if version or not limit:  # at a version the server may answer in one piece, whatever the limit
                raise
            if limit == 1:
                raise ObjectTooLarge(f"a single object can't be read: {error}") from error
            limit //= 2
            continue
        snapshot, token = snapshot or page.resource_version, page.continue_token
        yield msgspec.structs.replace(page, resource_version=snapshot)
        if not token:
            return


def list_all(source: ListWatch[T], *, resource_version: str = "", limit: int | None = None) -> Listing[T]:
    """List everything, `limit` objects a page as in `list_pages`. Raises KubeError."""
    pages: list[ListPage[T]] = []
    try:
        pages.extend(list_pages(source, resource_version=resource_version, limit=limit))
    except ApiError as error:
        if not (pages and is_expired(error)):
            raise
        page = source.list(ListOptions(resource_version=resource_version))
        return Listing([*page.items], page.resource_version, paged=True)
    return Listing([item for page in pages for item in page.items], pages[0].resource_version, paged=len(pages) > 1)
