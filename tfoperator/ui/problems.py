"""Why the page does not get what it has asked for."""

from __future__ import annotations


class NotThere(Exception):
    """There is no such thing (any more)."""


class CannotRead(Exception):
    """It can't be read now; the message says why."""
