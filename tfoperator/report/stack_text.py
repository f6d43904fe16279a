"""Finds the place at which a program's main thread waits. It reads the stacks that were kept of the program. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfoperator.report.traceback_text import library_of

_CURRENT = re.compile(r"^Current thread 0x[0-9a-f]+")
"""Python's faulthandler uses this name for the thread that handles the signal: the main thread."""
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d{1,9}) in (?P<function>.+)$')


def waits_at(lines: Sequence[str]) -> str:
    """Return a text such as `train.py, line 6, in wait`: the innermost call in the user's own files, from the newest
    stack. Else return "".
    """
    start = next((index for index in reversed(range(len(lines))) if _CURRENT.match(lines[index])), len(lines))
    for line in lines[start + 1 :]:
        frame = _FRAME.match(line)
        if frame is None:
            break
        if not library_of(frame["file"]):
            return f"{frame['file']}, line {frame['line']}, in {frame['function']}"
    return ""
