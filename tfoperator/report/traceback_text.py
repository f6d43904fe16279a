"""Finds the last Python traceback in the lines of a log, and reads it. Pure; never raises, whatever the log says.

Libraries print tracebacks that they survive, and a long message, or what other threads say meanwhile, pushes the real
one out of the last dozen lines. So the *last* one counts, wherever it stands, with the exceptions that led to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import PurePosixPath

import msgspec

_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ {2,}File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_REPEATED = re.compile(r"^ +\[Previous line repeated \d+ more times?\]$")
_MARKS = re.compile(r"^[ ~^]+$")
_LINKS = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
# What loggers begin a line with: absl, glog, the standard library's default and most people's own.
_LOG_LINE = re.compile(
    r"^(\d{4}-\d\d-\d\d[ T]|[IWEF]\d{4} \d\d:|(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\[[^\]]*(DEBUG|INFO|WARN|ERROR))"
)
# Packages that are installed, then the standard library's own files, then what has no file (`<frozen runpy>`).
_LIBRARIES = (
    re.compile(r"/(?:site|dist)-packages/([^/]+)"),
    re.compile(r"/lib/python3[^/]*/([^/.]+)"),
    re.compile(r"^<frozen ([^>]+)>$"),
)
_MESSAGE_LINES = 8  # of one exception; TensorFlow's quote whole graphs
_CHAIN = 8  # exceptions that led to one another


class Frame(msgspec.Struct, frozen=True, rename="camel"):
    """One call: `library` is the name of the package that the file belongs to; empty for the user's own files."""

    file: str
    line: int
    function: str
    code: str = ""
    library: str = ""


class Traceback(msgspec.Struct, frozen=True, rename="camel"):
    """One exception with the calls that it went through, the innermost last.

    `exception` is its first line (`ValueError: bad shape`), `more` are the lines of its message after that. `before` is
    the exception that led to this one, and `relation` how: `cause` (raise ... from) or `context` (raised while that one
    was handled).
    """

    exception: str
    frames: tuple[Frame, ...] = ()
    more: tuple[str, ...] = ()
    before: Traceback | None = None
    relation: str = ""

    @property
    def user_frames(self) -> tuple[Frame, ...]:
        """The calls in the user's own files."""
        return tuple(frame for frame in self.frames if not frame.library)


def last_traceback(lines: Sequence[str]) -> Traceback | None:
    """The last traceback in these lines, or None."""
    starts = [index for index, line in enumerate(lines) if _START in line][-_CHAIN:]
    if not starts:
        return None
    prefix = _prefix(lines[starts[-1]])
    text = [line.removeprefix(prefix) if prefix else line for line in lines[starts[0] :]]
    text = [line.rstrip() for line in text]
    offset = starts[0]
    blocks = [text[start - offset : end - offset] for start, end in pairwise((*starts, len(lines)))]
    found: Traceback | None = None
    relation = ""
    for block in blocks:
        one, link = _read(block, found if relation else None, relation)
        found, relation = one, link
    return found


def folded(frames: Sequence[Frame]) -> list[Frame | str]:
    """The frames with runs of libraries' frames folded into a line each: `(12 calls in keras, tensorflow)`.

    The last frame stays whatever it is: that is where it happened.
    """
    shown: list[Frame | str] = []
    last = frames[-1] if frames else None
    for is_library, group in groupby(frames, key=lambda frame: bool(frame.library) and frame is not last):
        run = list(group)
        if not is_library:
            shown += run
            continue
        names = ", ".join(dict.fromkeys(frame.library for frame in run))
        shown.append(f"({len(run)} call{'s' if len(run) != 1 else ''} in {names})")
    return shown


def _prefix(line: str) -> str:
    """What stands before the word on its line, as launchers put it before each line of a process (`[1,0]<stderr>:`).

    A logger that prints its name before the first line only is none: no other line begins with it.
    """
    return line[: line.index(_START)]


def _read(block: Sequence[str], before: Traceback | None, relation: str) -> tuple[Traceback, str]:
    """One traceback from its first line to the start of the next, and how the next is linked to it."""
    frames: list[Frame] = []
    index = 1
    while index < len(block):
        line = block[index]
        match = _FRAME.match(line)
        if match is not None:
            frames.append(_frame(match))
        elif frames and line.startswith("    ") and not frames[-1].code and not _MARKS.match(line):
            frames[-1] = msgspec.structs.replace(frames[-1], code=line.strip())
        elif not (line.startswith(" ") or _REPEATED.match(line)):
            break
        index += 1
    exception = block[index] if index < len(block) else ""
    more: list[str] = []
    link = ""
    for line in block[index + 1 :]:
        if line in _LINKS:
            link = _LINKS[line]
            break
        if line in ("", exception) or _LOG_LINE.match(line) or len(more) == _MESSAGE_LINES:
            continue
        more.append(line)
    exception = exception or "an exception that the log does not show: it ends here"
    return Traceback(exception, tuple(frames), tuple(more), before, relation if before is not None else ""), link


def _frame(match: re.Match[str]) -> Frame:
    file = match["file"]
    return Frame(file, int(match["line"][:9]), match["function"] or "", library=_library(file))


def _library(file: str) -> str:
    for pattern in _LIBRARIES:
        match = pattern.search(file)
        if match is not None:
            return match[1].removesuffix(".py")
    # An editable or vendored copy of the two that everybody here uses.
    parts = PurePosixPath(file).parts
    return next((name for name in ("keras", "tensorflow") if name in parts[:-1]), "")
