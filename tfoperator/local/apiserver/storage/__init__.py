"""The storage: objects by resource type, their revisions, pages of lists, and selections.

Confined to the server's event loop.
"""

from tfoperator.local.apiserver.storage.listing import (
    ListRequest,
    StoredPage,
    list_metadata,
    list_page,
    match_forbidden,
    parse_revision,
    too_large,
)
from tfoperator.local.apiserver.storage.selectors import parse_selector
from tfoperator.local.apiserver.storage.store import Compacted, ServedView, Store, StoreChange, StoredObject, encode

__all__ = [
    "Compacted",
    "ListRequest",
    "ServedView",
    "Store",
    "StoreChange",
    "StoredObject",
    "StoredPage",
    "encode",
    "list_metadata",
    "list_page",
    "match_forbidden",
    "parse_revision",
    "parse_selector",
    "too_large",
]
