"""Reads manifests (YAML or JSON, several documents, lists) as plain data, as kubectl does, and writes YAML.

YAML readers differ in how they read words without quotes. PyYAML reads `1e3` and `0o17` as text, but kubectl and
`yamldata` read them as numbers; for `12:30` it is the reverse. So a string gets quotes if one of these readers would
read it as another type.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfoperator.api.loading.templates import RENDER_FIRST, template_expression
from tfoperator.base.controlchars import reorders
from tfoperator.base.yamldata.reader import MAX_BYTES, Document, YamlBoundsError, YamlError, read_documents
from tfoperator.base.yamldata.scalars import is_plain_text


class ManifestError(YamlError):
    """Raised if a manifest can't be read.

    Its text is `file:line:column: what is wrong`. The file, line or column is left out if it is not known.
    """


class Manifest(msgspec.Struct, frozen=True):
    """One object of a file.

    `lines` has the line of each field, by its path with dots only (`spec.containers.0.name`). `line_of` also accepts
    the paths of problems (`spec.containers[0].name`).
    """

    obj: dict[str, Any]
    source: str
    line: int
    lines: Mapping[str, int] = {}

    def place(self, field: str = "") -> str:
        """Return the `file:line` of a field, or of the object."""
        return f"{self.source}:{self.line_of(field)}"

    def line_of(self, field: str) -> int:
        """Return the line of a field, or of the innermost object around it if the field itself is missing."""
        path = field.replace("[", ".").replace("]", "")
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return self.line


def load_manifests(path: str | Path) -> list[Manifest]:
    """Return the objects of a file (`-`: standard input).

    Raises ManifestError if the file can't be read or has no objects.
    """
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
        raise ManifestError(source, "is a directory: give the names of the manifests in it") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ManifestError(source, getattr(error, "strerror", None) or str(error)) from None
    return parse_manifests(data, source)


def parse_manifests(data: bytes | str, source: str = "<manifest>") -> list[Manifest]:
    """Return the objects in YAML or JSON text, without empty documents; a list (`kind: List`) is replaced by its items.

    Raises ManifestError if the text is not valid YAML, contains a value that is not an object, or is empty.
    """
    try:
        manifests = [
            manifest for document in read_documents(data, source) for manifest in _opened(_manifest(document, source))
        ]
    except YamlError as error:
        hint = _template_hint(data) if not isinstance(error, YamlBoundsError) else ""
        raise ManifestError(error.source, error.message + hint, error.line, error.column) from None
    if not manifests:
        raise ManifestError(source, "holds no object")
    return manifests


def _template_hint(data: bytes | str) -> str:
    expression = template_expression(data if isinstance(data, str) else data.decode(errors="replace"))
    return f". Line {expression[0]} has `{expression[1]}`: {RENDER_FIRST}" if expression is not None else ""


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


_WIDTH = 120
_OTHER_LINE_BREAKS = "\r\x85\u2028\u2029"
"""Characters that end a line in YAML 1.1, unless they are escaped."""


class _Dumper(yaml.SafeDumper):
    """SafeDumper without aliases, with block style for multi-line text, and with quotes where YAML readers differ."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if is_plain_text(text) else "'"
    if any(character in text for character in _OTHER_LINE_BREAKS):
        style = '"'
    elif "\n" in text.rstrip("\n"):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(objects: Iterable[Any]) -> str:
    """Return the objects as YAML documents; the members of an object keep their order."""
    made = list(objects)

    def dumped(*, allow_unicode: bool) -> str:
        return yaml.dump_all(
            made, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=allow_unicode, explicit_start=False
        )

    text = dumped(allow_unicode=True)
    return dumped(allow_unicode=False) if reorders(text) else text
