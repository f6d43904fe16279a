"""Lines of containers on a terminal, each behind its replica's name; cheap, for there may be very many."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from tfoperator.base.controlchars import without_controls

_LONGEST = 2000
"""Characters of a line that a terminal shows; the log has all. More would push everything else off the screen."""

_BAR = Segment("| ", Style(dim=True))


class PrefixedLines:
    """Something that rich prints: lines, each as its prefix, the style of that, and the text."""

    def __init__(self, lines: Sequence[tuple[str, Style, str]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for prefix, style, text in self._lines:
            yield Segment(prefix, style)
            yield _BAR
            if len(text) > _LONGEST:
                text = f"{text[:_LONGEST]} ... ({len(text) - _LONGEST} more characters in the log)"
            if text.isprintable():
                # Most lines: nothing in them is to be interpreted, and looking for it would take 50 times as long.
                yield Segment(f"{text}\n")
            else:
                yield from Text.from_ansi(without_controls(text), end="\n").render(console, end="\n")
