"""What a migration finds, as values."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Effort(StrEnum):
    """What a finding asks of whoever migrates."""

    ACTION = "action"
    """Something has to be done, or decided, before this operator takes over."""
    CHANGE = "change"
    """It behaves otherwise from then on; mostly nothing has to be done."""
    NOTE = "note"
    """What to expect, where it might be a surprise that nothing changes."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that a migration changes, where it comes from, and what to do about it ("" for nothing)."""

    effort: Effort
    field: str
    message: str
    todo: str = ""
