"""What a conversion yields: the job in its new version, notes for its author, and where each field came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.api.problems import Problem


class ConversionError(Exception):
    """A job can't be converted because a field isn't what its version says it is. As text: `field: message`."""

    def __init__(self, field: str, message: str) -> None:
        self.problem = Problem(field, message)
        super().__init__(str(self.problem))


class Note(msgspec.Struct, frozen=True):
    """Something that the author of a job should know about its conversion. `field` is a path in the original.

    `lost` says that the new version doesn't do what this field asks for.
    """

    field: str
    message: str
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Conversion(msgspec.Struct, frozen=True):
    """A converted job.

    `obj` shares what was not changed with the original: treat both as read-only. `origins` maps paths of `obj` to those
    of the original, where they differ; both are spelled as in `Problem.field`. `used` are fields of the original that
    v1 itself would ignore, but the conversion has not.
    """

    obj: dict[str, Any]
    notes: tuple[Note, ...] = ()
    origins: Mapping[str, str] = {}
    used: frozenset[str] = frozenset()

    def origin(self, field: str) -> str:
        """The path in the original of a field of `obj`: that of the innermost part that has moved, and the rest."""
        path, rest = field, ""
        while path:
            if path in self.origins:
                return self.origins[path] + rest
            cut = max(path.rfind("."), path.rfind("["), 0)
            path, rest = path[:cut], path[cut:] + rest
        return field


def pod_spec(template: Any) -> dict[str, Any] | None:
    """The pod spec of a pod template as a person wrote it; None where there is no such object."""
    pod = template.get("spec") if isinstance(template, dict) else None
    return pod if isinstance(pod, dict) else None
