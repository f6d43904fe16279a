"""What both engines take alike: lengths of names, numbers of variables; and their common error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from tfoperator.launcher import LauncherError

T = TypeVar("T")

MAX_ID = 2**31 - 1
"""The greatest id: ML Metadata's columns have 32 bits on PostgreSQL."""
_MAX_NAME = 255
_MAX_VARIABLES = 500
"""Variables of one statement; SQLite's limit was 999 before 3.32."""


class StoreError(LauncherError):
    """The metadata can't be read or written; the message names the store. `passing`: a retry may succeed."""

    passing = False


def named(name: str) -> str:
    """Return a name, if both engines take it. Raises StoreError."""
    if len(name) > _MAX_NAME or not storable(name):
        raise StoreError(f"{name[:40]!r}: a name has at most {_MAX_NAME} characters of Unicode, and no NUL")
    return name


def storable(text: str) -> bool:
    """Return whether both engines take a text: PostgreSQL refuses NUL, and both refuse halves of surrogate pairs."""
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def batched(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield parts of a sequence that are short enough for the variables of one statement."""
    return (values[start : start + _MAX_VARIABLES] for start in range(0, len(values), _MAX_VARIABLES))
