"""Progress bars of programs (Keras, tqdm): one line that is written over again and again, in little room. Pure."""

from __future__ import annotations

import re

from tfoperator.base.controlchars import without_controls

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_DRAWN = re.compile(r"[\u2500-\u259f#=>.\- ]{6,}")  # box drawing, blocks, and what does for them in ASCII


def in_short(bar: str) -> str:
    """The bar without what is only drawn and coloured, for a cell of a table: its numbers and words are what counts."""
    return _DRAWN.sub(" ", _COLOURS.sub("", without_controls(bar))).strip()
