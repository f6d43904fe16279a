"""Listing a collection in pages, as one consistent snapshot.

Pages bound the size of each answer. A continue token dies with etcd's compaction (5 minutes by default), so a list
that expires half-way is asked for again in one piece instead of from the start in pages, which could fail for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from tfoperator.informers.reflector.refusals import is_expired
from tfoperator.kube.errors import ApiError
from tfoperator.kube.options import ListOptions
from tfoperator.kube.verbs import ListerWatcher, ListPage

T = TypeVar("T")


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A whole collection at `resource_version`; `paged` if the server needed more than one page."""

    items: list[T]
    resource_version: str
    paged: bool


def list_all(
    list_watch: ListerWatcher[T], *, resource_version: str, limit: int, stopped: Callable[[], bool] = lambda: False
) -> Listing[T] | None:
    """List everything, `limit` items a page (0: all at once). None if `stopped()` turned true between two pages.

    Raises KubeError. The result's version is that of the first page: to watch from an older version repeats events,
    to watch from a newer one than the data would lose some.
    """
    page: ListPage[T] = list_watch.list(ListOptions(resource_version=resource_version, limit=limit))
    items = list(page.items)
    version = page.resource_version
    paged = bool(page.continue_token)
    while page.continue_token:
        if stopped():
            return None
        try:
            # The token fixes the snapshot; a server refuses a resourceVersion beside it.
            page = list_watch.list(ListOptions(limit=limit, continue_token=page.continue_token))
        except ApiError as error:
            if not is_expired(error):
                raise
            page = list_watch.list(ListOptions(resource_version=resource_version))
            return Listing(list(page.items), page.resource_version, paged)
        items.extend(page.items)
    return Listing(items, version, paged)
