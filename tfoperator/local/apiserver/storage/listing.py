"""Lists: selection, consistent paging and the meanings of `resourceVersion` and `resourceVersionMatch`.

A continue token contains the revision of the first page and the last key that was sent. Every page shows the state at
this revision, so a list never mixes states of different times. When the history no longer contains this revision, the
token has expired (410).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.apiserver.errors import (
    FieldProblem,
    StatusError,
    bad_request,
    expired,
    forbidden,
    invalid_options,
    not_supported,
)
from tfoperator.local.apiserver.members import parse_int64, query_flag
from tfoperator.local.apiserver.resource_types import ResourceType
from tfoperator.local.apiserver.storage.selectors import Selector, parse_selector
from tfoperator.local.apiserver.storage.store import Compacted, Store, StoredObject

_MAX_SHOWN = 64  # characters of a rejected value in a message


class ListRequest(msgspec.Struct, frozen=True):
    """The parsed query parameters of a list or watch. `send_initial_events` is None if the parameter is absent."""

    selector: Selector
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: float | None = None

    @classmethod
    def parse(cls, resource: ResourceType, query: Mapping[str, str]) -> ListRequest:
        """Parse the query. Raises StatusError 400 for an invalid parameter."""
        timeout = query.get("timeoutSeconds", "")
        return cls(
            parse_selector(resource, query.get("labelSelector", ""), query.get("fieldSelector", "")),
            _integer(query, "limit"),
            query.get("continue", ""),
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
            query_flag(query, "allowWatchBookmarks"),
            query_flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
            _integer(query, "timeoutSeconds") if timeout else None,
        )


class StoredPage(msgspec.Struct, frozen=True):
    """One page of a list. `remaining` is the number of objects after this page, if it is known."""

    items: list[StoredObject]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct, frozen=True):
    rv: int
    start: str


def _integer(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    try:
        return max(0, parse_int64(text or "0"))
    except ValueError as error:
        raise bad_request(f'unable to decode query parameter {name}: "{text[:_MAX_SHOWN]}" is {error}') from None


def parse_revision(text: str) -> int:
    """Return a resourceVersion as a number, 0 if it is absent. Raises StatusError 400 if it is not a valid number."""
    if not text:
        return 0
    try:
        revision = parse_int64(text)
    except ValueError:
        revision = -1
    if revision < 0:
        raise bad_request(f'Invalid value: "{text[:_MAX_SHOWN]}": invalid resourceVersion')
    return revision


def too_large(revision: int, current: int) -> StatusError:
    """Return a 504: the client has a version that this server has not reached.

    The client will retry, or will begin again with a list.
    """
    return StatusError(
        504,
        "Timeout",
        f"Too large resource version: {revision}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        headers={"Retry-After": "1"},
    )


def match_forbidden(why: str, *more: FieldProblem) -> StatusError:
    """Return a 422 for a `resourceVersionMatch` that contradicts other options.

    The Status also contains the problems in `more`.
    """
    return invalid_options("ListOptions", forbidden("resourceVersionMatch", why), *more)


def list_page(store: Store, resource: ResourceType, namespace: str, options: ListRequest) -> StoredPage:
    """Return the page that a list request names.

    Raises StatusError 422 for options that a list does not allow together, and 400 for an invalid resourceVersion or
    continue token. Raises 410 if the requested revision has expired, and 504 if this server has not reached it.
    """
    token = _check(options)
    if token is not None:
        revision, start = token.rv, token.start
        why = (
            "The provided continue parameter is too old to display a consistent list result. "
            "You can start a new list without the continue parameter."
        )
    else:
        wanted, start = parse_revision(options.resource_version), ""
        why = "The resourceVersion for the provided list is too old."
        if wanted > store.revision:
            raise too_large(wanted, store.revision)
        # As in kube-apiserver, a limit and a version without resourceVersionMatch mean exactly this version.
        exact = options.match == "Exact" or (not options.match and options.limit and wanted)
        revision = wanted if exact else store.revision
    objects = _objects_at(store, resource, namespace, revision, why)
    return _cut([o for o in objects if o.key > start] if start else objects, revision, options)


def _check(options: ListRequest) -> _Token | None:
    match, version = options.match, options.resource_version
    if options.send_initial_events is not None:
        problem = forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise invalid_options("ListOptions", problem)
    if options.continue_token:
        if match:
            raise match_forbidden("forbidden when continue is provided")
        if version and version != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(options.continue_token), type=_Token)
        except (*UNDECODABLE, binascii.Error, ValueError) as error:
            raise bad_request(f"continue key is not valid: {error}") from error
    if match and not version:
        raise match_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match not in ("", "Exact", "NotOlderThan"):
        problem = not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
        raise invalid_options("ListOptions", problem)
    if match == "Exact" and version == "0":
        raise match_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    return None


def _objects_at(store: Store, resource: ResourceType, namespace: str, revision: int, why: str) -> list[StoredObject]:
    if revision == store.revision:
        return store.objects(resource, namespace)
    if revision > store.revision:
        raise too_large(revision, store.revision)
    try:
        return store.objects_at(resource, revision, namespace)
    except Compacted as error:
        raise expired(why) from error


def _cut(objects: list[StoredObject], revision: int, options: ListRequest) -> StoredPage:
    selector, limit = options.selector, options.limit
    if not selector.empty:
        objects = [stored for stored in objects if selector.matches(stored.obj)]
    if not limit or len(objects) <= limit:
        return StoredPage(objects, revision)
    page = objects[:limit]
    token = base64.urlsafe_b64encode(msgspec.json.encode(_Token(revision, page[-1].key))).decode()
    return StoredPage(page, revision, token, len(objects) - limit if selector.empty else None)


def list_metadata(page: StoredPage) -> dict[str, Any]:
    """Return the `metadata` of the list object."""
    metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata
