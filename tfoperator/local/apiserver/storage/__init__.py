"""What is stored, listed and watched: objects by resource type, their revisions, pages of them, and selections.

Confined to the server's event loop.
"""

from tfoperator.local.apiserver.storage.listing import (
    ListOptions,
    Page,
    list_metadata,
    list_page,
    match_forbidden,
    parse_revision,
    too_large,
)
from tfoperator.local.apiserver.storage.selectors import parse_selector
from tfoperator.local.apiserver.storage.store import Change, Compacted, ServedView, Store, StoredObject, encode

__all__ = [
    "Change",
    "Compacted",
    "ListOptions",
    "Page",
    "ServedView",
    "Store",
    "StoredObject",
    "encode",
    "list_metadata",
    "list_page",
    "match_forbidden",
    "parse_revision",
    "parse_selector",
    "too_large",
]
