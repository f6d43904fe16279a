"""Reads manifests (YAML or JSON, several documents, lists) as the plain data that kubectl would send.

PyYAML's own loader differs from the one that people's manifests were tested with: it turns `12:30:45` into 45045, an
unquoted date into a date object, keeps the last of two equal keys silently and expands aliases without limit. So values
are built here from PyYAML's parser events, with libyaml's speed, the line of every field, and bounds on size, depth and
expansion: a manifest may come from anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfoperator.api.yaml_scalars import SCALARS, EventSource

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_VALUES", "Manifest", "ManifestError", "load_manifests", "parse_manifests"]

MAX_BYTES = 10 * 1024 * 1024
MAX_DEPTH = 100
MAX_VALUES = 1_000_000
"""The most values that a file may expand to, aliases included."""

# Lines are a courtesy: a file made to be large must not turn them into gigabytes.
_MAX_LINES = 20_000
_MAX_PATH = 1_000


class ManifestError(Exception):
    """A manifest can't be read. As text: `file:line:column: what is wrong`, as far as the place is known."""

    def __init__(self, source: str, message: str, line: int | None = None, column: int | None = None) -> None:
        """Lines and columns count from 1."""
        self.source = source
        self.message = message
        self.line = line
        self.column = column
        place = ":".join(str(part) for part in (source, line, column) if part is not None)
        super().__init__(f"{place}: {message}")


class Manifest(msgspec.Struct, frozen=True):
    """One object of a file.

    `lines` says at which line each field stands, by its path in dots alone; `line_of` reads the paths of problems.
    """

    obj: dict[str, Any]
    source: str
    line: int
    lines: Mapping[str, int] = {}

    def line_of(self, field: str) -> int:
        """The line of a field; of the innermost object around it where the field itself is missing."""
        path = field.replace("[", ".").replace("]", "")
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return self.line


def load_manifests(path: str | Path) -> list[Manifest]:
    """The objects of a file, or of standard input for `-`. Raises ManifestError; a file without objects is one."""
    source = "<stdin>" if str(path) == "-" else str(path)
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ManifestError(source, "no such file") from None
    except IsADirectoryError:
        raise ManifestError(source, "is a directory; name the files in it") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ManifestError(source, getattr(error, "strerror", None) or str(error)) from None
    return parse_manifests(data, source)


def parse_manifests(data: bytes | str, source: str = "<manifest>") -> list[Manifest]:
    """The objects in YAML or JSON text; empty documents are skipped and lists (`kind: List`) opened.

    Raises ManifestError if the text doesn't parse, holds anything but objects, or nothing at all.
    """
    if len(data) > MAX_BYTES:
        raise ManifestError(source, f"is larger than {MAX_BYTES // 2**20} MiB")
    manifests = [
        manifest for document in _Reader(_text(data, source), source).documents() for manifest in _opened(document)
    ]
    if not manifests:
        raise ManifestError(source, "holds no object")
    return manifests


def _text(data: bytes | str, source: str) -> str:
    if isinstance(data, str):
        return data
    # As YAML has it: UTF-16 announces itself by a byte order mark, everything else is UTF-8.
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError(source, f"is not UTF-8 text (byte {error.start})", line) from None


def _opened(manifest: Manifest) -> Iterator[Manifest]:
    items = manifest.obj.get("items")
    if manifest.obj.get("kind") != "List" or not isinstance(items, list):
        yield manifest
        return
    for position, item in enumerate(items):
        start = f"items.{position}."
        line = manifest.line_of(start)
        if not isinstance(item, dict):
            raise ManifestError(manifest.source, f"items[{position}]: must be an object", line)
        lines = {path[len(start) :]: at for path, at in manifest.lines.items() if path.startswith(start)}
        yield Manifest(item, manifest.source, line, lines)


class _Reader:
    """Builds plain JSON data from the parser's events."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._loader = EventSource(text)
        self._anchors: dict[str, tuple[Any, int]] = {}  # value and how many values it holds
        self._lines: dict[str, int] = {}
        self._count = 0

    def documents(self) -> Iterator[Manifest]:
        """Every document that isn't empty."""
        try:
            yield from self._documents()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = f"is not valid YAML: {_without_dot(error.problem or error.context or str(error))}"
            place = (mark.line + 1, mark.column + 1) if mark else (None, None)
            raise ManifestError(self._source, message, *place) from None
        except yaml.YAMLError as error:
            raise ManifestError(self._source, f"is not valid YAML: {' '.join(str(error).split())}") from None
        finally:
            self._loader.dispose()

    def _next(self) -> Any:  # some Event; the stubs of PyYAML know less than isinstance does
        return self._loader.get_event()

    def _documents(self) -> Iterator[Manifest]:
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            self._anchors, self._lines = {}, {}
            first = self._next()
            value = self._value(first, "", 0)
            self._next()  # the document's end
            if isinstance(value, dict):
                yield Manifest(value, self._source, first.start_mark.line + 1, self._lines)
            elif value is not None:
                raise self._error(first, "must be an object with apiVersion and kind")

    def _value(self, event: Any, path: str | None, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._error(event, f"is nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._count
        self._add(event, 1)
        value: Any
        if isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(event, path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(event, path, depth)
        else:
            value = self._scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._count - before)
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
            if key in result:
                raise self._error(event, f"key {key!r} stands here a second time")
            result[key] = self._value(self._next(), self._note(path, key, event.start_mark.line + 1), depth + 1)
        return merged | result if merged else result

    def _note(self, path: str | None, key: str, line: int) -> str | None:
        """Remember a field's line and return its path; None once there are too many or too long ones."""
        if path is None or len(path) + len(key) > _MAX_PATH or len(self._lines) >= _MAX_LINES:
            return None
        path = f"{path}.{key}" if path else key
        self._lines.setdefault(path, line)
        return path

    def _merge(self, merged: dict[str, Any], event: yaml.Event, depth: int) -> None:
        """YAML's `<<`: members of other mappings, of which the first wins and the mapping's own win over all."""
        value = self._value(event, None, depth + 1)
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise self._error(event, "'<<' must name a mapping or a list of mappings")
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
        raise self._error(event, "this is no text, so it can't be a key")

    def _alias(self, event: Any) -> Any:
        try:
            value, size = self._anchors[event.anchor]
        except KeyError:
            # An anchor is known once its value is complete, so a value can't contain itself either.
            raise self._error(event, f"alias *{event.anchor} has no anchor before it") from None
        self._add(event, size)
        return _copy(value)

    def _scalar(self, event: Any) -> Any:
        if event.tag in (None, "!"):
            tag: str = self._loader.resolve(  # type: ignore[no-untyped-call]
                yaml.ScalarNode, event.value, event.implicit
            )
        else:
            tag = event.tag
        convert = SCALARS.get(tag)
        if convert is None:
            raise self._error(event, f"tag {event.tag} is not supported in a manifest")
        try:
            return convert(event.value)
        except (ValueError, KeyError, OverflowError):
            kind = tag.rpartition(":")[2]
            raise self._error(event, f"{event.value[:40]!r} is not a value of type {kind} that JSON has") from None

    def _check_tag(self, event: yaml.CollectionStartEvent, expected: str) -> None:
        if event.tag not in (None, "!", expected):
            raise self._error(event, f"tag {event.tag} is not supported in a manifest")

    def _add(self, event: yaml.Event, values: int) -> None:
        self._count += values
        if self._count > MAX_VALUES:
            raise self._error(event, f"expands to more than {MAX_VALUES} values")

    def _error(self, event: Any, message: str) -> ManifestError:
        mark = event.start_mark
        return ManifestError(self._source, message, mark.line + 1, mark.column + 1)


def _copy(value: Any) -> Any:
    """A copy, so that changing an object in one place doesn't change it where its alias stands."""
    if isinstance(value, dict):
        return {key: _copy(child) for key, child in value.items()}
    return [_copy(child) for child in value] if isinstance(value, list) else value


def _without_dot(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
