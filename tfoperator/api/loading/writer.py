"""Writes plain data as YAML that means the same to PyYAML, to kubectl and to `yamldata`.

Their rules for plain words differ: to PyYAML `1e3` and `0o17` are text, to the others numbers; `12:30` is the reverse.
A string is quoted as soon as anybody would take it for something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from tfoperator.base.yamldata import is_plain_text

_WIDTH = 120
_OTHER_LINE_BREAKS = "\r\x85\u2028\u2029"
"""YAML 1.1 takes them for ends of lines unless they are escaped."""


class _Dumper(yaml.SafeDumper):
    """SafeDumper without aliases, with block style for texts of several lines, and with the quotes explained above."""

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
    """The objects as YAML documents, members in their order."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True, explicit_start=False
    )
