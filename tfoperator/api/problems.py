"""What can be wrong with a TFJob, as a value that names the field.

One spelling of field paths holds everywhere (messages, conditions, events, line numbers of manifests): members
joined by dots, map keys and list positions in brackets: `spec.tfReplicaSpecs[Worker].template.spec.containers[0]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """An error keeps a job from running; a warning says that it may not do what its author meant."""

    ERROR = "error"
    WARNING = "warning"


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with one field. As text: `field: message`."""

    field: str
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def errors(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Those problems that keep a job from running."""
    return tuple(problem for problem in problems if problem.severity is Severity.ERROR)


def member(path: str, name: str) -> str:
    """The path of a struct's member."""
    return f"{path}.{name}" if path else name


def shown(value: object, limit: int = 60) -> str:
    """A value as a message quotes it: as JSON on one line, cut when it is long."""
    text = msgspec.json.encode(value).decode() if _is_json(value) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _is_json(value: object) -> bool:
    # A container could be large or deep, and a message needs no more than what it is.
    return value is None or isinstance(value, str | int | float | bool)
