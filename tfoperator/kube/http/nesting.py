"""Objects of other clients that are nested deeper than this Python can decode.

API servers accept objects of 10,000 levels, and lists and watches put them into two more. How many levels a decoder
follows differs: `sys.setrecursionlimit` up to Python 3.11, about 1500 in 3.12 and 9998 in 3.13 regardless of that
setting, and the stack's capacity later. A list or a watch holds objects of many users: one deeply nested object must
not keep clients from reading the others.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from tfoperator.kube.protocol.verbs import Decoder

T = TypeVar("T")

LEVELS = 200
"""The number of levels that stay readable of an object that can't be decoded as a whole. Kubernetes' own objects have
less than a quarter of them."""

# A string without an end matches up to the end of the text: otherwise the search would begin again at each of its
# quotation marks.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def decode_what_can_be_followed(decode: Decoder[T], data: bytes) -> T:
    """Return `decode(data)` or, if that is nested too deeply, the value without the parts deeper than `LEVELS`.

    For readers only: an object that was read like this must not be written back. Raises the errors of `decode`.
    """
    try:
        return decode(data)
    except RecursionError:
        return decode(cut_off(data))


def reaches(value: Any, levels: int) -> bool:
    """Return whether the lists and objects of a decoded value, with the value itself, are nested this deep.

    Handles any depth.
    """
    level = [value]
    for _ in range(levels):
        level = [child for child in level if isinstance(child, dict | list)]
        if not level:
            return False
        level = [inner for child in level for inner in (child.values() if isinstance(child, dict) else child)]
    return True


def cut_off(data: bytes, levels: int = LEVELS) -> bytes:
    """Return JSON with null for lists and objects nested deeper than `levels`. Handles any depth."""
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
        return data  # this is not JSON, and must not become JSON
    return b"".join((*kept, data[begin:]))
