"""Wrong types in a pod template as a person wrote it: `command: python train.py`, a number as a variable's value. Pure.

The CRD leaves the template open, so such a job is accepted, and it is its pods that no API server can read. The
members that are checked are those of `kube.pod_spec`; the rest is left to the API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfoperator.api.problems import Problem, shown
from tfoperator.api.quantity import parse_quantity
from tfoperator.api.structure import type_problems
from tfoperator.kube.pod_spec import FullPodTemplate


def shape_problems(template: Mapping[str, Any], path: str) -> list[Problem]:
    """Every member of a pod template (plain data at `path`) that keeps an API server from reading its pods."""
    problems = type_problems(template, FullPodTemplate, path)
    return problems or list(_quantity_problems(template, path))


def _quantity_problems(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Of a template whose types are right."""
    spec = template.get("spec") or {}
    for group in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(group) or ()):
            for kind in ("limits", "requests"):
                quantities = ((container or {}).get("resources") or {}).get(kind) or {}
                for resource, quantity in quantities.items():
                    if not _is_quantity(quantity):
                        yield Problem(
                            f"{path}.spec.{group}[{position}].resources.{kind}[{resource}]",
                            f"must be a quantity such as 4, 500m or 8Gi, but is {shown(quantity)}",
                        )


def _is_quantity(value: object) -> bool:
    if value is None:
        return True  # absent
    try:
        # API servers take a fraction such as 0.5, too.
        parse_quantity(str(value) if isinstance(value, float) else value)
    except ValueError:
        return False
    return True
