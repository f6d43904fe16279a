"""The checks of single values, and the messages about their problems. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from tfoperator.api.fields.problems import Problem, Severity, shown


def warning(path: str, message: str) -> Problem:
    """Return a warning: a problem that does not keep the job from running."""
    return Problem(path, message, Severity.WARNING)


def unknown_choice(value: str, choices: type[StrEnum]) -> str:
    """Return the message about a text that is not a choice; return "" for a choice, and for an unset field."""
    # For the Go operator, the empty string means "unset".
    return f"must be one of {listed(choices)}, but is {shown(value)}" if value not in ("", *choices) else ""


def out_of_range(value: int, low: int, high: int) -> str:
    """Return the message about a number that is not within the bounds; "" if the number is within them."""
    if low <= value <= high:
        return ""
    limit, far = (f"must be {low} or more", "far below") if value < low else (f"must be {high} or less", "far above")
    return f"{limit}, but is {value if abs(value) < 10**20 else f'{far} that'}"


def listed(options: type[StrEnum]) -> str:
    """Return the options in the form in which a message lists them."""
    return ", ".join(option for option in options if option)


def volume_sources(volume: Mapping[str, Any]) -> list[str]:
    """Return the kinds of volume that a volume of a pod's spec names: a valid volume has one kind."""
    return [kind for kind, source in volume.items() if kind != "name" and source is not None]
