"""Reads objects that other clients have written, and that are nested more deeply than this Python can decode.

API servers accept objects of 10,000 levels. Lists and watches add two more levels. The number of levels that a decoder
accepts depends on the Python version: the value of `sys.setrecursionlimit` up to Python 3.11; about 1500 in 3.12 and
9998 in 3.13, regardless of that setting; later versions depend on the size of the stack. A list or a watch contains the
objects of many users. A single deeply nested object must not prevent clients from reading the other objects.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from tfoperator.kube.protocol.verbs import Decoder

T = TypeVar("T")

LEVELS = 200
"""The number of levels that a reader keeps if the whole object can't be decoded. Kubernetes' own objects have less than
a quarter of this number.
"""

# A string without an end matches up to the end of the text: otherwise the search would begin again at each of its
# quotation marks.
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def decode_what_can_be_followed(decode: Decoder[T], data: bytes) -> T:
    """Return `decode(data)`.

    If the data are nested too deeply, return the value without the parts deeper than `LEVELS`. Use this function only
    to read: never write the decoded object back, because it may lack parts. Raises the errors of `decode`.
    """
    try:
        return decode(data)
    except RecursionError:
        return decode(cut_off(data))


def reaches(value: Any, levels: int) -> bool:
    """Return whether a decoded value has at least this number of levels of nested lists and objects.

    The function uses no recursion, so the value may have any depth.
    """
    level = [value]
    for _ in range(levels):
        level = [child for child in level if isinstance(child, dict | list)]
        if not level:
            return False
        level = [inner for child in level for inner in (child.values() if isinstance(child, dict) else child)]
    return True


def cut_off(data: bytes, levels: int = LEVELS) -> bytes:
    """Return JSON in which null replaces lists and objects that are nested deeper than `levels`.

    The function uses no recursion, so the data may have any depth.
    """
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
