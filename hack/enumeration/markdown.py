"""Tables for the pages in docs/evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is text, and whose others are numbers."""
    lines = [titles, ["---", *["--:"] * (len(titles) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
