"""Wrong types in a pod template as a person wrote it: `command: python train.py`, a number as a variable's value. Pure.

The CRD leaves the template open, so such a job is accepted, and it is its pods that no API server can read. The
members here are those that people write by hand and get wrong; the rest is left to the API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfoperator.api.problems import Problem, shown
from tfoperator.api.quantity import parse_quantity
from tfoperator.api.structure import type_problems

__all__ = ["shape_problems"]


class _Shape(msgspec.Struct, rename="camel"):
    """Only looked at by `type_problems`, never made."""


class _Variable(_Shape):
    name: str = ""
    value: str = ""
    value_from: dict[str, Any] = {}


class _Mount(_Shape):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    read_only: bool = False


class _Resources(_Shape):
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}


class _Container(_Shape):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[_Variable, ...] = ()
    env_from: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[_Mount, ...] = ()
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Spec(_Shape):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    volumes: tuple[dict[str, Any], ...] = ()
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    image_pull_secrets: tuple[dict[str, Any], ...] = ()
    termination_grace_period_seconds: int = 0


class _Template(_Shape):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def shape_problems(template: Mapping[str, Any], path: str) -> list[Problem]:
    """Every member of a pod template (plain data at `path`) that keeps an API server from reading its pods."""
    problems = type_problems(template, _Template, path)
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
