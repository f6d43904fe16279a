"""The values of a container's variables after substitution, by the kubelet's rules but not by the operator's code.

A judge of an operator's pods must read them as the kubelet does, and not with the operator's own code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    """The container's variables that don't come from elsewhere, by name. API servers leave out what is empty.

    `$(NAME)` in one stands for the value of another that comes before it, `$$` for a dollar sign.
    """
    values: dict[str, str] = {}
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            values.pop(variable["name"], None)
        else:
            values[variable["name"]] = _REFERENCE.sub(
                lambda match: _meaning(match, values), variable.get("value") or ""
            )
    return values


def _meaning(match: re.Match[str], values: Mapping[str, str]) -> str:
    return "$" if match[0] == "$$" else values.get(match[1], match[0])
