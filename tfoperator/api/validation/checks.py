"""Checks of single values that the parts of the validation share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from tfoperator.api.problems import Problem, Severity, shown


def warning(path: str, message: str) -> Problem:
    """A problem that does not keep the job from running."""
    return Problem(path, message, Severity.WARNING)


def check_one_of(path: str, value: str | None, options: type[StrEnum]) -> Iterator[Problem]:
    """A problem unless the value is unset or one of the options."""
    # The empty string is the Go operator's "unset".
    if value and value not in set(options):
        yield Problem(path, f"must be one of {listed(options)}, but is {shown(value)}")


def check_range(path: str, value: int | None, low: int, high: int) -> Iterator[Problem]:
    """A problem unless the value is unset or within the bounds."""
    if value is None or low <= value <= high:
        return
    limit = f"must be {low} or more" if value < low else f"must be {high} or less"
    yield Problem(path, f"{limit}, but is {value if abs(value) < 10**20 else 'far beyond that'}")


def listed(options: type[StrEnum]) -> str:
    """The options as a message lists them."""
    return ", ".join(option for option in options if option)


def volume_sources(volume: Mapping[str, Any]) -> list[str]:
    """The kinds of volume that a volume of a pod's spec names: one, if it is right."""
    return [kind for kind, source in volume.items() if kind != "name" and source is not None]
