"""Sets of replica indexes as short strings, as batch/v1's Job writes them: `"0,2-5"`. Pure.

A status must remember which of perhaps a thousand replicas are finished without growing to a thousand numbers.
What is read back may have been edited by hand, so reading keeps what it understands and never raises or blows up.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_INDEXES = 100_000
"""The most indexes that one string yields: `"0-2147483647"` must not eat the operator's memory."""


def format_indexes(indexes: Iterable[int]) -> str:
    """Write a set of indexes: ascending, neighbours (two or more) joined as `first-last`; "" for none."""
    parts: list[str] = []
    first = last = -2
    for index in sorted(set(indexes)):
        if index == last + 1:
            last = index
            continue
        if last >= 0:
            parts.append(_range(first, last))
        first = last = index
    if last >= 0:
        parts.append(_range(first, last))
    return ",".join(parts)


def parse_indexes(text: str) -> frozenset[int]:
    """Read a set of indexes in any order, overlaps allowed.

    Parts that are not `n` or `n-m` (n <= m) are skipped, and so is everything after the first `MAX_INDEXES` indexes.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low = _number(first)
        high = _number(last) if dash else low
        if low is None or high is None:
            continue
        found.update(range(low, min(high + 1, low + MAX_INDEXES - len(found))))
        if len(found) >= MAX_INDEXES:
            break
    return frozenset(found)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
