"""The errors of the page's requests."""

from __future__ import annotations


class NotThere(Exception):
    """There is no such object (any more)."""


class CannotRead(Exception):
    """The data can't be read now; the message has the reason."""
