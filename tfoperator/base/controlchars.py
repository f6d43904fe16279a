"""Text from strangers (logs, names, messages) made harmless for whoever's terminal shows it in the end.

Escape sequences can retitle a window, move the cursor over what was printed before, and on some terminals do more. What
is printed into a pipe or a file reaches a terminal, too, by `grep`, `tee` or `cat`. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SEQUENCES = re.compile(
    r"(\x1b\[[0-9;:]*m)"  # colours (SGR), the only ones that are kept
    r"|\x1b[\]PX^_](?:[^\x07\x1b\n]*(?:\x07|\x1b\\)|)"  # OSC (titles, links), DCS and other strings, to their end
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # other CSI: cursor, screen
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"  # character sets, reset, ...
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"  # whatever else controls, an escape that breaks off included
)
_AFTER_SPACE = re.compile(r"[\x7f-\x9f]")


def without_controls(text: str, *, keep: str = "") -> str:
    """The output of a program without what would move the cursor, ring or garble the terminal; colours and tabs stay.

    Sequences are dropped, and single control characters become U+FFFD, unless they are in `keep`.
    """

    def harmless(match: re.Match[str]) -> str:
        found = match[0]
        if match[1] or found in keep:
            return found
        return "\ufffd" if len(found) == 1 else ""

    return _SEQUENCES.sub(harmless, text)


def shown_lines(text: str) -> list[str]:
    """The lines of a container's log, without their ends, each as a terminal shows it in the end.

    Only a line feed ends a line: a progress bar writes its line anew by carriage returns, and U+2028 or a form feed may
    stand in any message.
    """
    lines = text.split("\n")
    if not lines[-1]:
        del lines[-1]
    return [shown_line(line) for line in lines]


def shown_line(line: str) -> str:
    """What is there in the end of a line that was written over by carriage returns, as a progress bar does."""
    return line.rstrip("\r").rpartition("\r")[2]


def in_utf8(text: str) -> str:
    """The text as JSON can say it: bytes of a file name or an argument that are no UTF-8 are written as escapes.

    Python has those as lone surrogates, which nothing can encode.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    """A message whose control characters, colours included, are shown as Python would write them; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Plain data as JSON in readable Unicode, of which no character controls a terminal, and which loses nothing."""
    return _AFTER_SPACE.sub(
        lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False, indent=indent)
    )
