"""Lists all objects of a selection in pages. The pages limit the size of each response.

The pages of a list form a snapshot: all have the version of the first page, and a watch can continue from this version.
A watch from an older version would repeat events. A watch from a version newer than the data would miss events. A
continue token becomes invalid when etcd compacts its data (every 5 minutes by default). So if a list expires before its
last page, it is requested again without pages, as in client-go's pager. The reason: a second list in pages might also
expire before its last page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import msgspec

from tfoperator.kube.protocol.errors import AnswerTooLarge, ApiError, ObjectTooLarge, is_expired
from tfoperator.kube.protocol.options import ListOptions
from tfoperator.kube.protocol.verbs import ListPage, ListWatch

T = TypeVar("T")

PAGE_SIZE: Final = 500
"""The number of objects per list request, as in client-go's pager."""


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A whole collection at the version `resource_version`. `paged` is True if the server needed more than one page."""

    items: list[T]
    resource_version: str
    paged: bool


def list_pages(source: ListWatch[T], *, resource_version: str = "", limit: int | None = None) -> Iterator[ListPage[T]]:
    """Yield every page of one snapshot. There is at least one page, and each page has the snapshot's version.

    `limit` is the number of objects per page (None: PAGE_SIZE; 0: all objects in one page). If a page is too large, the
    limit is halved, and ObjectTooLarge is raised if a page with a single object is too large. But if the request has a
    `resource_version`, or no limit, AnswerTooLarge is raised at once: a server may ignore the limit of a request with a
    version. Raises KubeError, for example a 410 if the snapshot has expired.
    """
    limit = PAGE_SIZE if limit is None else limit
    token = snapshot = ""
    while True:
        # The token fixes the snapshot: a server refuses a request that has a token and a resourceVersion.
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
    """List all objects, in pages of `limit` objects.

    `limit` has the same meaning as in `list_pages`. If the snapshot expires before its last page, the list is requested
    again without a limit. Raises KubeError.
    """
    pages: list[ListPage[T]] = []
    try:
        pages.extend(list_pages(source, resource_version=resource_version, limit=limit))
    except ApiError as error:
        if not (pages and is_expired(error)):
            raise
        page = source.list(ListOptions(resource_version=resource_version))
        return Listing([*page.items], page.resource_version, paged=True)
    return Listing([item for page in pages for item in page.items], pages[0].resource_version, paged=len(pages) > 1)
