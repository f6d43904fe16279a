"""Finds and parses the last Python traceback in the lines of a log.

The module is pure, and raises no exception for any log. A log can have several tracebacks, because libraries also print
tracebacks of errors that they handle. After the traceback that ended the program, there can be a long message or lines
of other threads. So the *last* traceback counts, wherever it is, together with the exceptions that led to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import PurePosixPath

import msgspec

_FIRST_LINE = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ {2,}File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_REPEATED = re.compile(r"^ +\[Previous line repeated \d+ more times?\]$")
_MARKER_LINE = re.compile(r"^[ ~^]+$")
_LINK_LINES = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
# Prefixes of loggers' lines: absl, glog, the standard library's default and most custom prefixes.
_LOG_LINE = re.compile(
    r"^(\d{4}-\d\d-\d\d[ T]|[IWEF]\d{4} \d\d:|(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\[[^\]]*(DEBUG|INFO|WARN|ERROR))"
)
# Installed packages, then the standard library's own files, then code without a file (`<frozen runpy>`).
_LIBRARIES = (
    re.compile(r"/(?:site|dist)-packages/([^/]+)"),
    re.compile(r"/lib/python3[^/]*/([^/.]+)"),
    re.compile(r"^<frozen ([^>]+)>$"),
)
_MAX_MESSAGE_LINES = 8  # the maximum lines of an exception's message; messages of TensorFlow can contain whole graphs
_ADDRESS = re.compile(
    r"(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]*\]|\blocalhost|\.svc[\w.-]*):\d{2,5}\b|\bport:? \d{2,5}\b"
)
"""A pattern for a host with a port, or for a port that follows the word `port`."""
_LINES_BEFORE = 5  # how many lines before a traceback may have the error; for a port in use there are three lines
_FAILS = re.compile(r"^[EF]\d{4} |: [EF] |error|fail|in use|refused|\bbind", re.IGNORECASE)
_MAX_CHAIN = 8  # the maximum number of exceptions that led to each other


class Frame(msgspec.Struct, frozen=True, rename="camel"):
    """A call in a traceback. `code` is the line of source code.

    `library` is the name of the package to which the file belongs, or "" for the user's own files.
    """

    file: str
    line: int
    function: str
    code: str = ""
    library: str = ""


class Traceback(msgspec.Struct, frozen=True, rename="camel"):
    """An exception with the calls through which it went. The innermost call is the last.

    `exception` is the first line of its message (`ValueError: bad shape`), and `more` are the message's other lines.
    `before` is the exception that led to this exception. `relation` is `cause` (raise ... from) or `context` (raised
    while the exception `before` was handled).
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
    """Return the last traceback in these lines. Return None if there is none."""
    starts = [index for index, line in enumerate(lines) if _FIRST_LINE in line][-_MAX_CHAIN:]
    if not starts:
        return None
    prefix = _prefix(lines[starts[-1]])
    text = [line.removeprefix(prefix) if prefix else line for line in lines[starts[0] :]]
    text = [line.rstrip() for line in text]
    offset = starts[0]
    blocks = [text[start - offset : end - offset] for start, end in pairwise((*starts, len(lines)))]
    traceback: Traceback | None = None
    relation = ""
    for block in blocks:
        current, link = _read(block, traceback if relation else None, relation)
        traceback, relation = current, link
    return traceback


def line_before_traceback(lines: Sequence[str]) -> str:
    """Return a log line that reports an error and names a port, from the lines shortly before the last traceback.

    Return "" if there is no such line.

    For example, if a port is in use, TensorFlow's exception does not contain the address: only a log line of its C++
    libraries does. If the traceback itself names a port, return "".
    """
    start = next((index for index in reversed(range(len(lines))) if _FIRST_LINE in lines[index]), 0)
    if any(map(_ADDRESS.search, lines[start:])):
        return ""
    before = lines[max(0, start - _LINES_BEFORE) : start]
    return next((line.strip() for line in reversed(before) if _ADDRESS.search(line) and _FAILS.search(line)), "")


def folded(frames: Sequence[Frame]) -> list[Frame | str]:
    """Return the frames. Successive frames of libraries are folded into one line: `(12 calls in keras, tensorflow)`.

    The last frame is always kept, because the error happened there.
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
    """Return the prefix of a traceback's lines: the text before the word `Traceback` in its first line.

    The caller removes the prefix from all lines that begin with it.

    MPI, for example, adds the prefix `[1,0]<stderr>:` to each line of a process. A logger adds its name only to the
    first line; then the other lines begin without this prefix and stay unchanged.
    """
    return line[: line.index(_FIRST_LINE)]


def _read(block: Sequence[str], before: Traceback | None, relation: str) -> tuple[Traceback, str]:
    """Return the traceback at the start of a block of lines. The block ends before the log's next traceback.

    `before` is the exception that led to the exception of this traceback, and `relation` is as in `Traceback`. Also
    return how the next traceback is related to this traceback: `cause`, `context`, or "" (not related).
    """
    frames: list[Frame] = []
    index = 1
    while index < len(block):
        line = block[index]
        match = _FRAME.match(line)
        if match is not None:
            frames.append(_frame(match))
        elif frames and line.startswith("    ") and not frames[-1].code and not _MARKER_LINE.match(line):
            frames[-1] = msgspec.structs.replace(frames[-1], code=line.strip())
        elif not (line.startswith(" ") or _REPEATED.match(line)):
            break
        index += 1
    exception = block[index] if index < len(block) else ""
    more: list[str] = []
    link = ""
    for line in block[index + 1 :]:
        if line in _LINK_LINES:
            link = _LINK_LINES[line]
            break
        if line not in ("", exception) and not _LOG_LINE.match(line):
            more.append(line)
    if len(more) > _MAX_MESSAGE_LINES:
        # A message of TensorFlow first lists the calls that made a node of its graph. The reason follows after them.
        more = [line for line in more if not _FRAME.match(line) and not line.startswith("    ")][:_MAX_MESSAGE_LINES]
    exception = exception or "the log ends within the traceback, so the exception is not known"
    return Traceback(exception, tuple(frames), tuple(more), before, relation if before is not None else ""), link


def _frame(match: re.Match[str]) -> Frame:
    file = match["file"]
    return Frame(file, int(match["line"][:9]), match["function"] or "", library=library_of(file))


def library_of(file: str) -> str:
    """Return the name of the package to which a file belongs. Return "" for the user's own files."""
    for pattern in _LIBRARIES:
        match = pattern.search(file)
        if match is not None:
            return match[1].removesuffix(".py")
    # An editable or vendored copy of Keras or TensorFlow is in a folder with this name.
    parts = PurePosixPath(file).parts
    return next((name for name in ("keras", "tensorflow") if name in parts[:-1]), "")
