"""The options of a list or a watch, as values.

The options are the fields of `ListOptions` in the Kubernetes API, with one class for each of the two verbs.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a collection that match both selectors. An empty selector matches all objects."""

    label_selector: str = ""
    field_selector: str = ""


EVERYTHING: Final = Selection()


class ListOptions(Selection, frozen=True, kw_only=True):
    """The request for one page of a list.

    With `limit` 0, the request is for the whole list. A field with its default value ("" or 0) is not sent.
    """

    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""


class WatchOptions(Selection, frozen=True, kw_only=True):
    """A watch that the server ends after `timeout_seconds`.

    With `send_initial_events` (and `resource_version_match` "NotOlderThan") the watch begins with the existing objects.
    The existing objects arrive as ADDED events. A bookmark follows the last of these events.
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
    """Return a selection that contains only the object with this name."""
    return Selection(field_selector=f"metadata.name={name}")


def select(options: Options, selection: Selection) -> Options:
    """Return the options with this selection in place of their own selection."""
    return msgspec.structs.replace(
        options, label_selector=selection.label_selector, field_selector=selection.field_selector
    )
