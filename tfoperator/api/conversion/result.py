"""The result of a conversion: the job in its new version, notes for its author, and the original path of each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.api.fields.problems import Problem


class ConversionError(Exception):
    """Raised if a job can't be converted because a field doesn't conform to the job's version.

    Its text is `field: message`.
    """

    def __init__(self, field: str, message: str) -> None:
        self.problem = Problem(field, message)
        super().__init__(str(self.problem))


class Note(msgspec.Struct, frozen=True):
    """A message to the author of a job about the conversion of the job. `field` is a path in the original job.

    `lost` is true if the new version has no equivalent of the field.
    """

    field: str
    message: str
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Conversion(msgspec.Struct, frozen=True):
    """A converted job.

    `obj` shares its unchanged parts with the original: treat both as read-only. If a path of `obj` differs from the
    path in the original job, `origins` maps it to the original path. The paths are spelled as in `Problem.field`.
    `used` has the fields of the original job that v1 would ignore, but that the conversion used, such as a template's
    `restartPolicy`.
    """

    obj: dict[str, Any]
    notes: tuple[Note, ...] = ()
    origins: Mapping[str, str] = {}
    used: frozenset[str] = frozenset()

    def origin(self, field: str) -> str:
        """Return the path in the original job for a field of `obj`.

        The longest beginning of the path that `origins` has is replaced by the original path.
        """
        path, rest = field, ""
        while path:
            if path in self.origins:
                return self.origins[path] + rest
            cut = max(path.rfind("."), path.rfind("["), 0)
            path, rest = path[:cut], path[cut:] + rest
        return field


def pod_spec(template: Any) -> dict[str, Any] | None:
    """Return the pod spec of a handwritten pod template; None if there is no such object."""
    pod = template.get("spec") if isinstance(template, dict) else None
    return pod if isinstance(pod, dict) else None
