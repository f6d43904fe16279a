"""The findings of a migration, as values."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Effort(StrEnum):
    """The effort that a finding requires."""

    ACTION = "action"
    """A person must do or decide something before this operator takes over."""
    CHANGE = "change"
    """The behaviour changes after this operator takes over; most such changes need no action."""
    NOTE = "note"
    """A fact that the reader should know, although the behaviour does not change."""


class Finding(msgspec.Struct, frozen=True):
    """One change that a migration brings, the field or object that causes it, and the advice ("" for none)."""

    effort: Effort
    field: str
    message: str
    todo: str = ""
