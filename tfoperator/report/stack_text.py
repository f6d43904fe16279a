"""Finds, in stacks of Python's faulthandler, the line of the user's code in which a program's main thread waits.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfoperator.report.traceback_text import library_of

_CURRENT = re.compile(r"^Current thread 0x[0-9a-f]+")
"""The line before the stack of the thread that handles the signal. In Python, this is the main thread."""
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d{1,9}) in (?P<function>.+)$')


def waits_at(lines: Sequence[str]) -> str:
    """Return the innermost call in the user's own files, from the newest stack: `train.py, line 6, in wait`.

    Return "" if there is no such call.
    """
    start = next((index for index in reversed(range(len(lines))) if _CURRENT.match(lines[index])), len(lines))
    for line in lines[start + 1 :]:
        frame = _FRAME.match(line)
        if frame is None:
            break
        if not library_of(frame["file"]):
            return f"{frame['file']}, line {frame['line']}, in {frame['function']}"
    return ""
