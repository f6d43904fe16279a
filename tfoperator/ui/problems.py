"""Errors of the functions that collect data for the page. The server converts each error into an HTTP status."""

from __future__ import annotations


class NotThere(Exception):
    """The requested object does not exist, or was deleted. The server responds with 404."""


class CannotRead(Exception):
    """The requested data can't be read at the moment. The message contains the reason."""
