"""What an administrator adds to containers that ask for an accelerator: volumes, mounts and variables.

Drivers and their libraries may lie on the nodes and not in the images. Whoever runs the cluster knows where; whoever
trains should not have to say it in every job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.api.quantity import parse_quantity
from tfoperator.controller.pods.template import Template, list_of_objects

_Objects = Sequence[dict[str, Any]]


class Accelerator(msgspec.Struct, frozen=True, rename="camel"):
    """What goes with one resource, each as in a pod's spec; checked when the configuration is read."""

    volumes: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()


def add_accelerators(template: Template, accelerators: Mapping[str, Accelerator]) -> None:
    """Add to the template's containers, init containers too, that request or limit a resource in `accelerators`.

    What the template itself says stays: its volume of a name, its mount at a path, its variable of a name. Ours come
    first among the variables, so that the template's may refer to them. Raises TemplateError for a template of the
    wrong shape.
    """
    if not accelerators:
        return
    used: dict[str, Accelerator] = {}
    groups = {}
    for group in ("initContainers", "containers"):
        path = f"{template.path}.spec.{group}"
        containers = list_of_objects(template.spec.get(group), path)
        groups[group] = [
            _with_accelerators(container, accelerators, used, f"{path}[{position}]")
            for position, container in enumerate(containers)
        ]
    if not used:
        return
    template.use_containers(groups["containers"])
    own = list_of_objects(template.spec.get("volumes"), f"{template.path}.spec.volumes")
    volumes = _joined(own, (one.volumes for one in used.values()), "name")
    template.spec = template.spec | {"volumes": volumes}
    if groups["initContainers"]:
        template.spec = template.spec | {"initContainers": groups["initContainers"]}


def _with_accelerators(
    container: dict[str, Any], accelerators: Mapping[str, Accelerator], used: dict[str, Accelerator], path: str
) -> dict[str, Any]:
    """The container with what its accelerators need; those are added to `used`."""
    wanted = {name: one for name, one in accelerators.items() if _asks_for(container, name)}
    if not wanted:
        return container
    used |= wanted
    env = list_of_objects(container.get("env"), f"{path}.env")
    mounts = list_of_objects(container.get("volumeMounts"), f"{path}.volumeMounts")
    ours = _joined(env, (one.env for one in wanted.values()), "name")[len(env) :]
    return container | {
        "env": [*ours, *env],
        "volumeMounts": _joined(mounts, (one.volume_mounts for one in wanted.values()), "mountPath"),
    }


def _asks_for(container: dict[str, Any], resource: str) -> bool:
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return False
    amounts = (resources.get("limits"), resources.get("requests"))
    return any(isinstance(amount, dict) and _is_some(amount.get(resource)) for amount in amounts)


def _is_some(amount: object) -> bool:
    """Whether it is a quantity beyond 0, however that is written. What is none is for the API server to refuse."""
    try:
        return parse_quantity(amount) > 0
    except ValueError:
        return False


def _joined(own: _Objects, more: Any, key: str) -> list[dict[str, Any]]:
    """Our own, then those of `more` whose `key` is new."""
    result = list(own)
    seen = {_place(item.get(key)) for item in own}
    for item in (item for group in more for item in group):
        if _place(item[key]) not in seen:
            seen.add(_place(item[key]))
            result.append(item)
    return result


def _place(value: object) -> str:
    # A path may end in a slash, a name can't.
    return str(value).rstrip("/")
