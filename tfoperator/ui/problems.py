"""The errors that requests of the page can have."""

from __future__ import annotations


class NotThere(Exception):
    """The object does not exist (any more)."""


class CannotRead(Exception):
    """The data can't be read now. The message contains the reason."""
