"""Reads the small built-in kinds from protobuf, which kubectl's generators (`create namespace|configmap|secret`) send.

A message is decoded by a table of its field numbers (those of the published .proto files) into the dictionary that its
JSON would give; unknown fields are skipped, as protobuf wants it. Answers are JSON in any case.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

__all__ = ["MEDIA_TYPE", "ProtobufError", "decode"]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Raw = int | bytes
_Convert = Callable[[_Raw], Any]


class ProtobufError(ValueError):
    """The bytes are no message, or of a kind that isn't read here."""


class _Field(NamedTuple):
    name: str
    convert: _Convert
    repeated: bool = False
    is_map: bool = False


_Message = Mapping[int, _Field]


def decode(body: bytes) -> dict[str, Any]:
    """The object in a Kubernetes protobuf envelope, as JSON would have it. Raises ProtobufError."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin like Kubernetes protobuf")
    envelope = _decode_message(body[len(_MAGIC) :], _ENVELOPE)
    kind = envelope.get("typeMeta", {})
    message = _KINDS.get(kind.get("kind", ""))
    if message is None:
        raise ProtobufError(f"{kind.get('kind') or 'this kind'} can't be read from protobuf here: send JSON")
    return {**kind, **_decode_message(envelope.get("raw", b""), message)}


def _decode_message(data: bytes, fields: _Message) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for number, raw in _read_fields(data):
        field = fields.get(number)
        if field is None:
            continue
        value = field.convert(raw)
        if field.is_map:
            out.setdefault(field.name, {})[value.get("key", "")] = value.get("value", "")
        elif field.repeated:
            out.setdefault(field.name, []).append(value)
        elif value not in ("", {}, None):
            out[field.name] = value
    return out


def _read_fields(data: bytes) -> Iterator[tuple[int, _Raw]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(data, position)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(wire_type, -1)
        end = position + length
        if length < 0 or end > len(data):
            raise ProtobufError("the protobuf message is cut off or malformed")
        yield number, data[position:end]
        position = end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ProtobufError("the protobuf message is cut off or malformed")


def _bytes(raw: _Raw) -> bytes:
    if not isinstance(raw, bytes):
        raise ProtobufError("a protobuf field has the wrong type")
    return raw


def _text(raw: _Raw) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("a protobuf string is not UTF-8") from error


def _base64(raw: _Raw) -> str:
    return base64.b64encode(_bytes(raw)).decode()


def _integer(raw: _Raw) -> int:
    if not isinstance(raw, int):
        raise ProtobufError("a protobuf field has the wrong type")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _boolean(raw: _Raw) -> bool:
    return bool(_integer(raw))


def _time(raw: _Raw) -> str | None:
    parts = _decode_message(_bytes(raw), {1: _Field("seconds", _integer), 2: _Field("nanos", _integer)})
    if not parts:
        return None
    moment = datetime.fromtimestamp(parts.get("seconds", 0), UTC)
    micro = parts.get("nanos", 0) // 1000
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{micro:06d}Z" if micro else "Z")


def _message(fields: _Message) -> _Convert:
    return lambda raw: _decode_message(_bytes(raw), fields)


def _map(name: str, convert: _Convert) -> _Field:
    return _Field(name, _message({1: _Field("key", _text), 2: _Field("value", convert)}), is_map=True)


def _texts(**numbers: int) -> dict[int, _Field]:
    return {number: _Field(name, _text) for name, number in numbers.items()}


_ENVELOPE: _Message = {1: _Field("typeMeta", _message(_texts(apiVersion=1, kind=2))), 2: _Field("raw", _bytes)}
_OWNER: _Message = {
    **_texts(kind=1, name=3, uid=4, apiVersion=5),
    6: _Field("controller", _boolean),
    7: _Field("blockOwnerDeletion", _boolean),
}
_METADATA = _Field(
    "metadata",
    _message(
        {
            **_texts(name=1, generateName=2, namespace=3, uid=5, resourceVersion=6),
            7: _Field("generation", _integer),
            8: _Field("creationTimestamp", _time),
            11: _map("labels", _text),
            12: _map("annotations", _text),
            13: _Field("ownerReferences", _message(_OWNER), repeated=True),
            14: _Field("finalizers", _text, repeated=True),
        }
    ),
)
_REFERENCE = _message(_texts(kind=1, namespace=2, name=3, uid=4, apiVersion=5, resourceVersion=6, fieldPath=7))
_SERIES: _Message = {1: _Field("count", _integer), 2: _Field("lastObservedTime", _time)}
_LEASE: _Message = {
    **_texts(holderIdentity=1),
    2: _Field("leaseDurationSeconds", _integer),
    3: _Field("acquireTime", _time),
    4: _Field("renewTime", _time),
    5: _Field("leaseTransitions", _integer),
}
_PRECONDITIONS: _Message = _texts(uid=1, resourceVersion=2)
_KINDS: Mapping[str, _Message] = {
    "Namespace": {1: _METADATA, 2: _Field("spec", _message({1: _Field("finalizers", _text, repeated=True)}))},
    "ConfigMap": {
        1: _METADATA,
        2: _map("data", _text),
        3: _map("binaryData", _base64),
        4: _Field("immutable", _boolean),
    },
    "Secret": {
        1: _METADATA,
        2: _map("data", _base64),
        4: _map("stringData", _text),
        5: _Field("immutable", _boolean),
        **_texts(type=3),
    },
    "ServiceAccount": {
        1: _METADATA,
        2: _Field("secrets", _REFERENCE, repeated=True),
        3: _Field("imagePullSecrets", _message(_texts(name=1)), repeated=True),
        4: _Field("automountServiceAccountToken", _boolean),
    },
    "Event": {
        1: _METADATA,
        2: _Field("involvedObject", _REFERENCE),
        5: _Field("source", _message(_texts(component=1, host=2))),
        6: _Field("firstTimestamp", _time),
        7: _Field("lastTimestamp", _time),
        8: _Field("count", _integer),
        10: _Field("eventTime", _time),
        11: _Field("series", _message(_SERIES)),
        13: _Field("related", _REFERENCE),
        **_texts(reason=3, message=4, type=9, action=12, reportingComponent=14, reportingInstance=15),
    },
    "Lease": {1: _METADATA, 2: _Field("spec", _message(_LEASE))},
    "DeleteOptions": {
        1: _Field("gracePeriodSeconds", _integer),
        2: _Field("preconditions", _message(_PRECONDITIONS)),
        3: _Field("orphanDependents", _boolean),
        4: _Field("propagationPolicy", _text),
        5: _Field("dryRun", _text, repeated=True),
    },
}
