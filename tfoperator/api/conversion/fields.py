"""The members of an object of a version that Go's decoder read, which ignores case: `tensorboard`, `RuntimeId`.

Each member is taken once, so that the rest is known and can be reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfoperator.api.conversion.result import ConversionError
from tfoperator.api.problems import member, shown


class Fields:
    """An object's members by name, in any case. Raises ConversionError if `value` is not an object."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise ConversionError(path, f"must be an object, but is {_what(value)}")
        self._path = path
        self._rest: dict[str, Any] = dict(value)
        self._spelled: dict[str, str] = {}

    def take(self, name: str) -> Any:
        """Return a member's value, None when absent. Of several spellings the exact one, else the first, counts."""
        spelled = name if name in self._rest else next((n for n in self._rest if n.lower() == name.lower()), None)
        if spelled is None:
            return None
        self._spelled[name] = spelled
        return self._rest.pop(spelled)

    def take_text(self, name: str) -> str:
        """Return a string member, empty when absent. Raises ConversionError if it is something else."""
        value = self.take(name)
        if value is None or isinstance(value, str):
            return value or ""
        raise ConversionError(self.path(name), f"must be a string, but is {_what(value)}")

    def path(self, name: str) -> str:
        """Return the path of a member as the object spells it."""
        return member(self._path, self._spelled.get(name, name))

    def spelling(self, name: str) -> str:
        """Return a member's name as the object spells it."""
        return self._spelled.get(name, name)

    def rest(self) -> Mapping[str, Any]:
        """Return the members that have not been taken."""
        return self._rest


def _what(value: Any) -> str:
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else shown(value)
