"""Kubernetes quantities (`2`, `500m`, `1Gi`): said to be wrong here, where the field is known, not by an API server."""

from __future__ import annotations

import re

from tfoperator.launcher.errors import PlatformConfigError

__all__ = ["quantity"]

_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGTPE])(i?)[bB]")


def quantity(field: str, value: str | float) -> str:
    """The quantity as Kubernetes wants it. PlatformConfigError says what was probably meant."""
    text = str(value).strip()
    if isinstance(value, bool) or not _QUANTITY.fullmatch(text):
        hint = "write it like 2, 500m, 1G or 1Gi"
        if match := _BYTES.fullmatch(text):
            number, unit, binary = match.groups()
            unit = unit.upper() if binary else ("k" if unit in "kK" else unit)
            hint = f"write {number}{unit}{binary}"
            hint += "" if binary else f", or {number}{unit.upper()}i for powers of 1024"
        raise PlatformConfigError(f"{field}: {value!r} is no quantity: {hint}")
    return text
