"""Reads the built-in kinds from protobuf. kubectl's generators (`create deployment`, ...) and client-go send protobuf.

The module converts a message into a dictionary in the form of the object's JSON. Unknown fields are skipped, as
protobuf requires. The known fields are in the table `protobuf_fields.json`, which hack/protobuf_fields.py generates
from the published Go types. The table has all fields of these kinds, so a field that a client sets is never lost.
Responses are always JSON.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, NamedTuple

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Raw = int | bytes
_Convert = Callable[[_Raw], Any]


class ProtobufError(ValueError):
    """The bytes are not a valid message, or the message's kind is not supported."""


class _Field(NamedTuple):
    """A field of a message. If a field has no name, its own fields are added to the enclosing message."""

    name: str
    convert: _Convert
    repeated: bool = False
    is_map: bool = False
    keep_empty: bool = False
    """Whether the decoder keeps an empty value of this field. It does if the field is a pointer in Go, or if JSON never
    omits the field.
    """


_Message = Mapping[int, _Field]


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in a Kubernetes protobuf envelope, in the form that it has in JSON.

    Raises ProtobufError if the body is not a valid message, or if the kind of its object is not supported.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin with the prefix of Kubernetes protobuf")
    envelope = _decode_message(body[len(_MAGIC) :], _ENVELOPE)
    kind = envelope.get("typeMeta", {})
    kinds = _table()["kinds"]
    version = "v1" if kind.get("kind") == "DeleteOptions" else kind.get("apiVersion")  # every group has DeleteOptions
    name = f"{version}/{kind.get('kind')}"
    if name not in kinds:
        raise ProtobufError(f"{kind.get('kind') or 'this kind'} can't be read as protobuf here: send JSON")
    return {**kind, **_decode_message(envelope.get("raw", b""), _message(kinds[name]))}


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files(__package__).joinpath("protobuf_fields.json").read_bytes())
    return table


@functools.cache
def _message(name: str) -> _Message:
    return {int(number): _field(description) for number, description in _table()["messages"][name].items()}


def _field(description: str) -> _Field:
    """Return a field from its text in `protobuf_fields.json`, such as `conditions apps.DeploymentCondition*`.

    A `!` before the type sets `keep_empty`. After the type, `*` means a list, and `%` a map.
    """
    name, _, kind = description.rpartition(" ")
    keep_empty, kind = kind.startswith("!"), kind.removeprefix("!")
    is_map, repeated, kind = kind.endswith("%"), kind.endswith("*"), kind.rstrip("%*")
    convert = _converter(kind)
    if is_map:
        entry = {1: _Field("key", _text), 2: _Field("value", convert, keep_empty=True)}
        convert = lambda raw: _decode_message(_bytes(raw), entry)  # noqa: E731 - one of three ways to convert
    return _Field(name, convert, repeated, is_map, keep_empty)


def _converter(kind: str) -> _Convert:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind.startswith("list:"):
        items = {1: _Field("items", _converter(kind.removeprefix("list:")), repeated=True)}
        return lambda raw: _decode_message(_bytes(raw), items).get("items", [])
    return lambda raw: _decode_message(_bytes(raw), _message(kind))


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
        elif not field.name:
            out |= value
        elif value is not None and (field.keep_empty or value):
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
    moment = _moment(raw)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _micro_time(raw: _Raw) -> str | None:
    moment = _moment(raw)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def _moment(raw: _Raw) -> datetime | None:
    parts = _decode_message(_bytes(raw), _MOMENT)
    if not parts:
        return None
    try:
        moment = datetime.fromtimestamp(parts.get("seconds", 0), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ProtobufError("a protobuf time is out of range") from error
    return moment.replace(microsecond=parts.get("nanos", 0) // 1000 % 1_000_000)


def _json(raw: _Raw) -> Any:
    held = _decode_message(_bytes(raw), {1: _Field("raw", _bytes)}).get("raw")
    try:
        return None if held is None else json.loads(held)
    except ValueError as error:
        raise ProtobufError("a protobuf field does not contain JSON") from error


def _quantity(raw: _Raw) -> str:
    return str(_decode_message(_bytes(raw), {1: _Field("string", _text)}).get("string", "0"))


def _int_or_string(raw: _Raw) -> int | str:
    parts = _decode_message(_bytes(raw), _INT_OR_STRING)
    return str(parts.get("string", "")) if parts.get("type") else int(parts.get("int", 0))


_SCALARS: Mapping[str, _Convert] = {
    "string": _text,
    "bytes": _base64,
    "int": _integer,
    "bool": _boolean,
    "time": _time,
    "microtime": _micro_time,
    "json": _json,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
}
_MOMENT: _Message = {1: _Field("seconds", _integer, keep_empty=True), 2: _Field("nanos", _integer)}
_INT_OR_STRING: _Message = {1: _Field("type", _integer), 2: _Field("int", _integer), 3: _Field("string", _text)}
_TYPE_META: _Message = {1: _Field("apiVersion", _text), 2: _Field("kind", _text)}
_ENVELOPE: _Message = {
    1: _Field("typeMeta", lambda raw: _decode_message(_bytes(raw), _TYPE_META)),
    2: _Field("raw", _bytes),
}
