"""Problems of a TFJob, as values that name the field.

Messages, conditions, events and the line numbers of manifests all spell a field path in the same way: dots join the
members, and map keys and list positions are in brackets: `spec.tfReplicaSpecs[Worker].template.spec.containers[0]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """With an error, the job does not run. With a warning, the job may run in a way that its author did not intend."""

    ERROR = "error"
    WARNING = "warning"


class Problem(msgspec.Struct, frozen=True):
    """One problem of one field. Its text is `field: message`."""

    field: str
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems that keep a job from running."""
    return tuple(problem for problem in problems if problem.severity is Severity.ERROR)


def member(path: str, name: str) -> str:
    """Return the path of a struct's member."""
    return f"{path}.{name}" if path else name


def shown(value: object, limit: int = 60) -> str:
    """Return a value as messages quote it: as JSON on one line, shortened to `limit` characters if it is longer.

    A value that JSON does not have is written as in Python.
    """
    text = msgspec.json.encode(value).decode() if _is_json(value) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def in_words(value: object) -> str:
    """Describe a value for a message about a wrong type: `null`, `an object`, `true`, `the number 3`."""
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case bool():
            return shown(value)
        case str():
            return f"the string {shown(value)}"
    return f"the number {shown(value)}"


def _is_json(value: object) -> bool:
    # A list or an object could be large or deep, and a message needs only its type.
    return value is None or isinstance(value, str | int | float | bool)
