"""Makes untrusted text (logs, names, messages) harmless for the terminal that shows the text.

Escape sequences can change a window's title, move the cursor over earlier output, and do more on some terminals. Output
into a pipe or a file reaches a terminal, too, through `grep`, `tee` or `cat`. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""The control characters of Unicode's bidirectional algorithm: they change the order in which a text is shown."""

_SEQUENCES = re.compile(
    r"(\x1b\[[0-9;:]*m)"  # colours (SGR), the only sequences that are kept
    r"|\x1b[\]PX^_](?:[^\x07\x1b\n]*(?:\x07|\x1b\\)|)"  # OSC (titles, links), DCS and other strings, to their end
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # other CSI: cursor, screen
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"  # character sets, reset, ...
    rf"|[\x00-\x08\x0a-\x1f\x7f-\x9f{_DIRECTIONS}]"  # any other control character, also ESC of an incomplete escape
)
_AFTER_SPACE = re.compile(rf"[\x7f-\x9f{_DIRECTIONS}]")
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_REORDERS = re.compile(f"[{_DIRECTIONS}]")


def without_controls(text: str, *, keep: str = "") -> str:
    """Remove characters that move the cursor, ring the bell or disturb the terminal; keep colours and tabs.

    All other escape sequences are removed. All other control characters are replaced by U+FFFD, unless they are in
    `keep`.
    """
    if text.isprintable():
        return text  # most lines are like this, and so cost almost nothing

    def harmless(match: re.Match[str]) -> str:
        found = match[0]
        if match[1] or found in keep:
            return found
        return "\ufffd" if len(found) == 1 else ""

    return _SEQUENCES.sub(harmless, text)


def plain_text(line: str) -> str:
    """Return a log line without escape sequences (colours are removed, too) and without control characters.

    A backspace removes the character before it: with backspaces, some progress bars write their next state over the
    last state.
    """
    if line.isprintable():
        return line
    shown: list[str] = []
    for character in _COLOURS.sub("", without_controls(line, keep="\b")):
        if character != "\b":
            shown.append(character)
        elif shown:
            shown.pop()
    return "".join(shown)


def shown_lines(text: str) -> list[str]:
    """Return the lines of a container's log, without line ends, each as a terminal finally shows it.

    Only a line feed ends a line: a progress bar rewrites its line with carriage returns, and U+2028 or a form feed may
    be in any message.
    """
    lines = text.split("\n")
    if not lines[-1]:
        del lines[-1]
    return [shown_line(line) for line in lines]


def shown_line(line: str) -> str:
    """Return the final text of a line that was overwritten by carriage returns, as by a progress bar."""
    return line.rstrip("\r").rpartition("\r")[2]


def in_utf8(text: str) -> str:
    """Return the text as valid UTF-8: bytes of a file name or an argument that are not UTF-8 become escapes.

    Python represents such bytes as lone surrogates, which no codec can encode.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def printable(text: str) -> str:
    """Return a message with all control characters and colours escaped as in Python; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def reorders(text: str) -> bool:
    """Return whether the text has characters that change the order in which a terminal shows the text after them.

    The caller then writes the text with ASCII escapes.
    """
    return _REORDERS.search(text) is not None


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return plain data as JSON with readable Unicode; characters that control a terminal are escaped.

    JSON has no NaN and no infinity: such a number becomes the text "NaN", "Infinity" or "-Infinity".
    """
    return _AFTER_SPACE.sub(lambda match: f"\\u{ord(match[0]):04x}", valid_json(value, indent=indent))


def valid_json(value: Any, *, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Return plain data as JSON, as `json.dumps` does, but with texts in place of NaN and infinity."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False)
    except ValueError:
        return json.dumps(_with_finite_numbers(value), ensure_ascii=False, indent=indent, separators=separators)


def _with_finite_numbers(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return json.dumps(value)  # the text "NaN", "Infinity" or "-Infinity"
        case Mapping():
            return {key: _with_finite_numbers(member) for key, member in value.items()}
        case list() | tuple():
            return [_with_finite_numbers(item) for item in value]
    return value
