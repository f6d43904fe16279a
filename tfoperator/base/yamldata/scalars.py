"""The values of words without quotes in YAML, by the rules of the library that kubectl uses, and not by PyYAML's rules.

PyYAML follows YAML 1.1 exactly, and so reads `12:30:45` as a number in base 60, and a date as a date object. By the
rules of this module, all values are JSON values. `EventSource` is PyYAML's parser (libyaml's parser, if it is
available) with the rules of this module instead of PyYAML's rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

_MAX_BITS = 1024
"""The maximum number of bits of a number: the range of a float. Python refuses to print much larger numbers, and
readers of JSON don't accept them.
"""


def _int(text: str) -> int:
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-").lower()
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xob"
    value = int(digits, 8 if octal else 0)
    if value.bit_length() > _MAX_BITS:
        raise OverflowError(text)
    return sign * value


def _float(text: str) -> float:
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

SCALARS: Mapping[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": lambda text: _BOOLS[text.lower()],
    "tag:yaml.org,2002:int": _int,
    "tag:yaml.org,2002:float": _float,
}
"""Converts a scalar's text into its value, by tag; raises ValueError, KeyError or OverflowError for a wrong text."""


class _Resolver(yaml.resolver.BaseResolver):
    """Finds the scalars without quotes that are not strings, by the rules of the YAML library that kubectl uses."""


for _tag, _pattern, _first in (
    ("bool", r"^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$", "yYnNtTfFoO"),
    ("int", r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+0123456789."),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    _Resolver.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))

_PLAIN_RESOLVER = _Resolver()


def is_plain_text(text: str) -> bool:
    """Return whether this text is a string by the rules of this module, even if it has no quotes."""
    tag: str = _PLAIN_RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag == "tag:yaml.org,2002:str"


if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]  # the stubs forget to export it

    class EventSource(CParser, _Resolver):
        """Parser events from libyaml, with tags for scalars without quotes."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            _Resolver.__init__(self)

else:
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class EventSource(Reader, Scanner, Parser, _Resolver):  # type: ignore[no-redef]
        """Parser events from PyYAML itself, for a PyYAML that was built without libyaml."""

        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)
            _Resolver.__init__(self)

        def dispose(self) -> None:
            """Release the parser's states."""
            Parser.dispose(self)
