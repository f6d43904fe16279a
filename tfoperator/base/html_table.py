"""Tables in the form that notebooks show. Cell contents are text, never markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from tfoperator.base.controlchars import printable

_CELL_STYLE = "text-align:left;padding:2px 12px 2px 0"
_GREEN, _RED, _YELLOW = "#1a7f37", "#cf222e", "#9a6700"  # readable on white and on black
_COLOURS = {"Running": _GREEN, "Succeeded": _GREEN, "Failed": _RED, "Pending": _YELLOW}


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with these column titles; if a cell is the name of a state, it has the colour of that state."""
    head = "".join(f'<th style="{_CELL_STYLE}">{html_text(title)}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(words: str) -> str:
    """Return words as text for an HTML page; the name of a state gets its colour."""
    text, colour = html.escape(printable(words)), _COLOURS.get(words)
    return f'<span style="color:{colour}">{text}</span>' if colour else text


def _cell(words: str) -> str:
    return f'<td style="{_CELL_STYLE}">{html_text(words)}</td>'
