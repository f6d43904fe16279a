"""The findings of a migration, as values."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Effort(StrEnum):
    """The effort that a finding requires."""

    ACTION = "action"
    """Something must be done, or decided, before this operator takes over."""
    CHANGE = "change"
    """The behaviour changes from then on; mostly no action is needed."""
    NOTE = "note"
    """A fact to know; it may be a surprise that nothing changes."""


class Finding(msgspec.Struct, frozen=True):
    """One change by a migration, its origin, and the remedy ("" for none)."""

    effort: Effort
    field: str
    message: str
    todo: str = ""
