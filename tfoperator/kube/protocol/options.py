"""The options of a list or a watch, as values: `ListOptions` of the Kubernetes API, split into its two uses."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a collection that match both selectors; an empty selector matches all."""

    label_selector: str = ""
    field_selector: str = ""


EVERYTHING: Final = Selection()


class ListOptions(Selection, frozen=True, kw_only=True):
    """One page of a list, or with `limit` 0 the whole list. Each default leaves the choice to the server."""

    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""


class WatchOptions(Selection, frozen=True, kw_only=True):
    """A watch that the server ends after `timeout_seconds`.

    `send_initial_events` (with `resource_version_match` "NotOlderThan") begins with the existing objects, as ADDED
    events up to a bookmark that marks their end.
    """

    resource_version: str = ""
    resource_version_match: str = ""
    timeout_seconds: int = 300
    allow_watch_bookmarks: bool = True
    send_initial_events: bool | None = None


LIST_ALL: Final = ListOptions()
WATCH_FROM_NOW: Final = WatchOptions()

Options = TypeVar("Options", ListOptions, WatchOptions)


def by_name(name: str) -> Selection:
    """Return the selection of the one object of this name."""
    return Selection(field_selector=f"metadata.name={name}")


def select(options: Options, selection: Selection) -> Options:
    """Return the options with this selection instead of their own."""
    return msgspec.structs.replace(
        options, label_selector=selection.label_selector, field_selector=selection.field_selector
    )
