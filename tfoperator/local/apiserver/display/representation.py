"""The formats that a client can request: whole objects, only metadata, or a table, each as an object, a list or a
watch.

Whole objects are never encoded here: the response contains a copy of their stored JSON. A client that requests protobuf
gets JSON, which client libraries accept. If a client accepts none of the server's media types, the response is an error
(406).
"""

from __future__ import annotations

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.local.apiserver.display.tables import TableFormat
from tfoperator.local.apiserver.errors import not_acceptable
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.resource_types import ResourceType
from tfoperator.local.apiserver.storage.listing import StoredPage, list_metadata
from tfoperator.local.apiserver.storage.store import StoredObject, encode


class RequestedForm(msgspec.Struct, frozen=True):
    """The format that the Accept header requests.

    `form` is "" for whole objects. Otherwise it is "Table", "PartialObjectMetadata" or "PartialObjectMetadataList".
    `version` is the version of the kind `form` in the group `meta.k8s.io`.
    """

    form: str = ""
    version: str = "v1"


_WHOLE_OBJECT = RequestedForm()
_PARTIAL = "PartialObjectMetadata"
_FORMS = frozenset({"Table", _PARTIAL, f"{_PARTIAL}List"})
_JSON_TYPES = frozenset({"application/json", "application/*", "*/*", "application/vnd.kubernetes.protobuf"})


def negotiate(accept: str) -> RequestedForm:
    """Return the first of the formats in an Accept header that the server supports.

    Raises StatusError 406 if the server supports none of these formats.
    """
    if not accept:
        return _WHOLE_OBJECT
    for clause in accept.split(","):
        media_type, *pairs = (part.strip() for part in clause.split(";"))
        parameters = dict(pair.partition("=")[::2] for pair in pairs)
        if media_type.lower() not in _JSON_TYPES:
            continue
        form, version = parameters.get("as", ""), parameters.get("v", "v1")
        if not form:
            return _WHOLE_OBJECT
        is_known = form in _FORMS and parameters.get("g", "meta.k8s.io") == "meta.k8s.io"
        if is_known and version in ("v1", "v1beta1"):
            return RequestedForm(form, version)
    raise not_acceptable()


class Representation:
    """Encodes whole objects, and lists and watches of whole objects. Subclasses encode the other formats."""

    def __init__(self, api_version: str, kind: str) -> None:
        """Initialize with the API version and the kind that an object has in this format."""
        self._api_version = api_version
        self._kind = kind

    def one(self, stored: StoredObject) -> bytes:
        """Return the encoding of a single object."""
        return stored.data

    def many(self, page: StoredPage) -> bytes:
        """Return the encoding of a list."""
        return b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":[%b]}' % (
            self._kind.encode(),
            self._api_version.encode(),
            encode(list_metadata(page)),
            b",".join([self.one(stored) for stored in page.items]),
        )

    def event(self, type_: str, stored: StoredObject) -> bytes:
        """Return the line of a watch for an event: `type_` is ADDED, MODIFIED or DELETED."""
        return _line(type_, self.one(stored))

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes:
        """Return the line of a watch for a BOOKMARK at this revision.

        With `initial_events_end`, the line contains the annotation by which a client knows that it has received all
        objects that existed when the watch began.
        """
        metadata: Json = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self._bookmark(_object(self._kind, self._api_version, metadata))

    def _bookmark(self, obj: Json) -> bytes:
        return _line("BOOKMARK", encode(obj))


def representation(
    wanted: RequestedForm, resource: ResourceType, table: TableFormat, clock: Clock, include_object: str = "Metadata"
) -> Representation:
    """Return the encoder for one request.

    `include_object` is the query parameter `includeObject`. Each row of a table contains the whole object for "Object",
    its metadata for "Metadata", and neither for "None".
    """
    if wanted.form == "Table":
        return _Tables(resource, wanted.version, table, clock, include_object)
    if wanted.form:
        return _Partial(f"meta.k8s.io/{wanted.version}", _PARTIAL)
    return Representation(resource.api_version, resource.kind)


def _line(type_: str, data: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), data)


def _object(kind: str, api_version: str, metadata: Json) -> Json:
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata}


class _Partial(Representation):
    def one(self, stored: StoredObject) -> bytes:
        return encode(_object(self._kind, self._api_version, stored.metadata))


class _Tables(Representation):
    def __init__(
        self, resource: ResourceType, version: str, table: TableFormat, clock: Clock, include_object: str
    ) -> None:
        super().__init__(resource.api_version, resource.kind)
        self._meta_version = f"meta.k8s.io/{version}"
        self._table = table
        self._clock = clock
        self._include = include_object
        self._first = True

    def _row(self, stored: StoredObject) -> Json:
        row: Json = {"cells": self._table.row(stored.obj, self._clock.now())}
        if self._include == "Object":
            row["object"] = stored.obj
        elif self._include != "None":
            row["object"] = _object(_PARTIAL, self._meta_version, stored.metadata)
        return row

    def _wrap(self, metadata: Json, rows: list[Json], *, columns: bool = True) -> bytes:
        return encode(
            {
                **_object("Table", self._meta_version, metadata),
                "columnDefinitions": self._table.definitions() if columns else None,
                "rows": rows,
            }
        )

    def one(self, stored: StoredObject) -> bytes:
        return self._wrap({"resourceVersion": str(stored.revision)}, [self._row(stored)])

    def many(self, page: StoredPage) -> bytes:
        return self._wrap(list_metadata(page), [self._row(stored) for stored in page.items])

    def event(self, type_: str, stored: StoredObject) -> bytes:
        columns, self._first = self._first, False  # a watch sends its columns with the first event only
        metadata = {"resourceVersion": str(stored.revision)}
        return _line(type_, self._wrap(metadata, [self._row(stored)], columns=columns))

    def _bookmark(self, obj: Json) -> bytes:
        columns, self._first = self._first, False
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return _line("BOOKMARK", self._wrap(metadata, [{"cells": [], "object": obj}], columns=columns))
