"""Kubernetes quantities (`2`, `500m`, `1Gi`): checked here, where the field is known, and not by an API server."""

from __future__ import annotations

import re

from tfoperator.launcher.core import PlatformConfigError

_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGTPE])(i?)[bB]")


def quantity(field: str, value: str | float) -> str:
    """The quantity as Kubernetes wants it; `1GB` is its `1G`, and `1GiB` its `1Gi`. Raises PlatformConfigError."""
    text = str(value).strip()
    if isinstance(value, bool) or not _QUANTITY.fullmatch(text):
        if match := _BYTES.fullmatch(text):  # as the TFX design writes it: 1GB
            number, unit, binary = match.groups()
            return f"{number}{unit.upper() if binary else ('k' if unit in 'kK' else unit)}{binary}"
        raise PlatformConfigError(f"{field}: {value!r} is no quantity: write it like 2, 500m, 1G or 1Gi")
    return text
