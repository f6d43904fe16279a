"""Objects of others that are nested deeper than this Python can follow.

API servers take objects of 10,000 levels, and lists and watches put them into two more. How many levels a decoder
follows differs: what `sys.setrecursionlimit` says up to Python 3.11, some 1500 in 3.12 and 9998 in 3.13 whatever that
says, and what the stack has room for later. A list or a watch is about the objects of many: one of them must not keep
anybody from reading the others.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from tfoperator.kube.verbs import Decoder

T = TypeVar("T")

LEVELS = 200
"""How deep an object stays readable that can't be read as a whole. Nothing in Kubernetes is a quarter of it."""

# A string without an end goes to the end of the text, or each quotation mark in it would be looked at as a beginning.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def decode_what_can_be_followed(decode: Decoder[T], data: bytes) -> T:
    """`decode(data)`, and if that is nested too deeply, what is left of it without what lies deeper than `LEVELS`.

    For readers only: an object that was read like this must not be written back. Raises what `decode` raises.
    """
    try:
        return decode(data)
    except RecursionError:
        return decode(cut_off(data))


def reaches(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested so deep in a decoded value, itself included. Any number can be followed."""
    level = [value]
    for _ in range(levels):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True


def cut_off(data: bytes, levels: int = LEVELS) -> bytes:
    """JSON in which lists and objects that begin below so many others are null. Follows any number of levels."""
    kept: list[bytes] = []
    depth = begin = 0
    for token in _TOKENS.finditer(data):
        kind = token[0]
        if kind in (b"[", b"{"):
            depth += 1
            if depth == levels + 1:
                kept += (data[begin : token.start()], b"null")
        elif kind in (b"]", b"}"):
            depth -= 1
            if depth == levels:
                begin = token.end()
    if depth != 0:
        return data  # this is no JSON, and must not become any
    return b"".join((*kept, data[begin:]))
