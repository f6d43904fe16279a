"""A whole list, page after page, so that no answer gets too large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from tfoperator.kube.options import EVERYTHING, ListOptions, Selection, select
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Decoder, ListPage

T = TypeVar("T")

PAGE_SIZE: Final = 500
"""Objects per list request, as client-go's pager has it."""


def list_pages(
    client: ApiClient,
    resource: Resource,
    namespace: str,
    decode: Decoder[T],
    selection: Selection = EVERYTHING,
    *,
    metadata_only: bool = False,
) -> Iterator[ListPage[T]]:
    """Every page of one snapshot, at least one page. Raises KubeError (410 if the snapshot has expired)."""
    options = select(ListOptions(limit=PAGE_SIZE), selection)
    while True:
        page = client.list(resource, namespace, decode, options, metadata_only=metadata_only)
        yield page
        if not page.continue_token:
            return
        options = msgspec.structs.replace(options, continue_token=page.continue_token)
