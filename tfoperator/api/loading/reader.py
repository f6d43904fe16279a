"""Reads manifests (YAML or JSON, several documents, lists) as the plain data that kubectl would send."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.base.yamldata import MAX_BYTES, Document, YamlError, read_documents


class ManifestError(YamlError):
    """A manifest can't be read. As text: `file:line:column: what is wrong`, as far as the place is known."""


class Manifest(msgspec.Struct, frozen=True):
    """One object of a file.

    `lines` says at which line each field stands, by its path in dots alone; `line_of` reads the paths of problems.
    """

    obj: dict[str, Any]
    source: str
    line: int
    lines: Mapping[str, int] = {}

    def place(self, field: str = "") -> str:
        """`file:line` of a field, or of the object."""
        return f"{self.source}:{self.line_of(field)}"

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
    try:
        manifests = [
            manifest for document in read_documents(data, source) for manifest in _opened(_manifest(document, source))
        ]
    except YamlError as error:
        raise ManifestError(error.source, error.message, error.line, error.column) from None
    if not manifests:
        raise ManifestError(source, "holds no object")
    return manifests


def _manifest(document: Document, source: str) -> Manifest:
    if not isinstance(document.value, dict):
        message = "must be an object with apiVersion and kind"
        raise ManifestError(source, message, document.line, document.column)
    return Manifest(document.value, source, document.line, document.lines)


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
