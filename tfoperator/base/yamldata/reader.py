"""Reads YAML (and JSON, which is YAML) as plain JSON data, within bounds on size, depth and expansion.

PyYAML's own loader differs from the loader of kubectl, with which people test manifests. PyYAML's loader turns
`12:30:45` into 45045, and an unquoted date into a date object. If two keys are equal, that loader silently keeps the
last value. It also expands aliases without a limit. So this module makes the values from PyYAML's parser events. It has
the speed of libyaml, and it has the line of every field.

A text may come from any source. The limits apply to the expanded data, not to the text: each use of an alias counts
with the bytes, values and levels of its anchor. So later operations on the data (copying, printing, sending) need no
more time and memory than for the largest text without aliases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfoperator.base.yamldata.scalars import SCALARS, EventSource

MAX_BYTES = 10 * 1024 * 1024
"""The maximum size in bytes of a text; also of all keys and scalars (as UTF-8) after aliases are expanded."""
MAX_DEPTH = 100
MAX_VALUES = 1_000_000
"""The maximum number of values in a text after aliases are expanded."""

# These limits keep the record of line numbers small, even for a huge file.
_MAX_LINES = 20_000
_MAX_PATH = 1_000


class YamlError(Exception):
    """Raised if a text can't be read.

    The text of the error is `source:line:column: what is wrong`, without an unknown line or column. `message` may
    contain parts of the text that was read; the message of a YamlBoundsError doesn't.
    """

    def __init__(self, source: str, message: str, line: int | None = None, column: int | None = None) -> None:
        """Initialize; lines and columns count from 1."""
        self.source = source
        self.message = message
        self.line = line
        self.column = column
        place = ":".join(str(part) for part in (source, line, column) if part is not None)
        super().__init__(f"{place}: {message}")


class YamlBoundsError(YamlError):
    """Raised if the text is too large, expands to too much data, or has too many levels."""


class Document(msgspec.Struct, frozen=True):
    """A document that isn't empty: its value, its first line, and the line of each field (by its path with dots)."""

    value: Any
    line: int
    column: int
    lines: Mapping[str, int] = {}


def read_documents(
    data: bytes | str, source: str, *, max_bytes: int = MAX_BYTES, unique_keys: bool = True
) -> Iterator[Document]:
    """Return the documents of a text, without empty documents. Raises YamlError, which names `source`, line and column.

    `max_bytes` limits the text and its expanded data. Equal keys are an error. Without `unique_keys` they are allowed,
    and the last of them counts, as in Kubernetes' own lenient readers.
    """
    if len(data) > max_bytes:
        raise _too_large(source, max_bytes)
    return _Reader(_text(data, source), source, max_bytes, unique_keys).documents()


def read_value(data: bytes | str, source: str, *, max_bytes: int = MAX_BYTES, unique_keys: bool = True) -> Any:
    """Return the only document's value, None if the text is empty. Raises YamlError, also for several documents."""
    found = read_documents(data, source, max_bytes=max_bytes, unique_keys=unique_keys)
    first = next(found, None)
    if second := next(found, None):
        raise YamlError(
            source,
            "a second document starts here, but the file must have one document only",
            second.line,
            second.column,
        )
    return first.value if first else None


def read_value_of_file(path: str | Path, source: str, *, max_bytes: int = MAX_BYTES, unique_keys: bool = True) -> Any:
    """Read a file as `read_value` reads a text. Raises YamlError, also for a file above `max_bytes`, and OSError."""
    with open(path, "rb") as file:
        return read_value(file.read(max_bytes + 1), source, max_bytes=max_bytes, unique_keys=unique_keys)


def _too_large(source: str, max_bytes: int) -> YamlBoundsError:
    return YamlBoundsError(source, f"is larger than {max_bytes // 2**20} MiB")


def _text(data: bytes | str, source: str) -> str:
    if isinstance(data, str):
        return data
    # As in the YAML specification: UTF-16 has a byte order mark, everything else is UTF-8.
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YamlError(source, f"is not UTF-8 text (byte {error.start})", line) from None


class _Anchor(msgspec.Struct, frozen=True):
    """A value that aliases use again, and what each use adds to the size of the data."""

    value: Any
    values: int
    size: int
    levels: int


class _Reader:
    """Builds plain JSON data from the parser's events."""

    def __init__(self, text: str, source: str, max_bytes: int, unique_keys: bool) -> None:
        self._source = source
        self._max_bytes = max_bytes
        self._unique_keys = unique_keys
        self._loader = EventSource(text)
        self._anchors: dict[str, _Anchor] = {}
        self._lines: dict[str, int] = {}
        self._values = 0
        self._size = 0
        self._deepest = 0  # the deepest level since a caller last reset it

    def documents(self) -> Iterator[Document]:
        """Return every document that isn't empty."""
        try:
            yield from self._documents()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = f"is not valid YAML: {_without_dot(error.problem or error.context or str(error))}"
            place = (mark.line + 1, mark.column + 1) if mark else (None, None)
            raise YamlError(self._source, message, *place) from None
        except yaml.YAMLError as error:
            raise YamlError(self._source, f"is not valid YAML: {' '.join(str(error).split())}") from None
        finally:
            self._loader.dispose()

    def _next(self) -> Any:  # an Event; PyYAML's stubs are less precise than isinstance
        return self._loader.get_event()

    def _documents(self) -> Iterator[Document]:
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            self._anchors, self._lines = {}, {}
            first = self._next()
            value = self._value(first, "", 0)
            self._next()  # the document's end
            if value is not None:
                yield Document(value, first.start_mark.line + 1, first.start_mark.column + 1, self._lines)

    def _value(self, event: Any, path: str | None, depth: int) -> Any:
        self._reach(event, depth)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        values, size, deepest = self._values, self._size, self._deepest
        self._deepest = depth
        self._add(event, 1, 0)
        value: Any
        if isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(event, path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(event, path, depth)
        else:
            value = self._scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(
                value, self._values - values, self._size - size, self._deepest - depth
            )
        self._deepest = max(self._deepest, deepest)
        return value

    def _mapping(self, start: yaml.MappingStartEvent, path: str | None, depth: int) -> dict[str, Any]:
        self._check_tag(start, "tag:yaml.org,2002:map")
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<":
                self._merge(merged, self._next(), depth)
                continue
            key = self._key(event, depth)
            if key in result and self._unique_keys:
                raise self._error(event, f"key {key!r} is here a second time")
            result[key] = self._value(self._next(), self._note(path, key, event.start_mark.line + 1), depth + 1)
        return merged | result if merged else result

    def _note(self, path: str | None, key: str, line: int) -> str | None:
        """Record a field's line and return its path; None if there are too many paths or the path is too long."""
        if path is None or len(path) + len(key) > _MAX_PATH or len(self._lines) >= _MAX_LINES:
            return None
        path = f"{path}.{key}" if path else key
        self._lines.setdefault(path, line)
        return path

    def _merge(self, merged: dict[str, Any], event: yaml.Event, depth: int) -> None:
        """Add the members of the mappings in the value of YAML's key `<<` to `merged`.

        If several of these mappings have the same key, the first mapping counts.
        """
        value = self._value(event, None, depth + 1)
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(event, "'<<' must have a mapping or a list of mappings as its value")
            for key, child in source.items():
                merged.setdefault(key, child)

    def _sequence(self, start: yaml.SequenceStartEvent, path: str | None, depth: int) -> list[Any]:
        self._check_tag(start, "tag:yaml.org,2002:seq")
        result: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            here = self._note(path, str(len(result)), event.start_mark.line + 1)
            result.append(self._value(event, here, depth + 1))
        return result

    def _key(self, event: yaml.Event, depth: int) -> str:
        value = self._value(event, None, depth) if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) else None
        match value:
            case str():
                return value
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
        raise self._error(event, "this is not text, so it can't be a key")

    def _alias(self, event: Any, depth: int) -> Any:
        try:
            anchor = self._anchors[event.anchor]
        except KeyError:
            # An anchor is recorded once its value is complete, so a value can't contain itself.
            raise self._error(
                event, f"alias *{event.anchor} has no complete value with the anchor &{event.anchor} before it"
            ) from None
        self._add(event, anchor.values, anchor.size)
        self._reach(event, depth + anchor.levels)
        return _copy(anchor.value)

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        self._add(event, 0, len(text) if text.isascii() else len(text.encode(errors="surrogatepass")))
        if event.tag in (None, "!"):
            tag: str = self._loader.resolve(yaml.ScalarNode, text, event.implicit)  # type: ignore[no-untyped-call]
        else:
            tag = event.tag
        convert = SCALARS.get(tag)
        if convert is None:
            raise self._error(event, f"tag {event.tag} is not supported here")
        try:
            return convert(text)
        except (ValueError, KeyError, OverflowError):
            kind = tag.rpartition(":")[2]
            raise self._error(event, f"{text[:40]!r} can't be a value of type {kind} in JSON") from None

    def _check_tag(self, event: yaml.CollectionStartEvent, expected: str) -> None:
        if event.tag not in (None, "!", expected):
            raise self._error(event, f"tag {event.tag} is not supported here")

    def _add(self, event: yaml.Event, values: int, size: int) -> None:
        self._values += values
        self._size += size
        if self._values > MAX_VALUES:
            raise self._bounds(event, f"has more than {MAX_VALUES} values, including the values of its aliases")
        if self._size > self._max_bytes:
            raise self._bounds(event, f"has aliases that expand to more than {self._max_bytes // 2**20} MiB")

    def _reach(self, event: yaml.Event, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            raise self._bounds(event, f"has more than {MAX_DEPTH} levels of nesting")

    def _error(self, event: Any, message: str) -> YamlError:
        mark = event.start_mark
        return YamlError(self._source, message, mark.line + 1, mark.column + 1)

    def _bounds(self, event: Any, message: str) -> YamlBoundsError:
        mark = event.start_mark
        return YamlBoundsError(self._source, message, mark.line + 1, mark.column + 1)


def _copy(value: Any) -> Any:
    """Copy a value, so a change in one place does not change the other places that use the same anchor."""
    if isinstance(value, dict):
        return {key: _copy(child) for key, child in value.items()}
    return [_copy(child) for child in value] if isinstance(value, list) else value


def _without_dot(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
