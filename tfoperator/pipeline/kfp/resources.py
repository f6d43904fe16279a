"""Converts the resources of a container in a Kubeflow Pipelines file: processors, memory and accelerators.

These resources become limits and requests of a pod, and options of Docker. A field is a constant, or comes from a
parameter. If the parameter comes from the output of a step, the value of the field is known only during the run. The
module does no I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.launcher import (
    ComponentError,
    DockerPlatformConfig,
    KubernetesPodPlatformConfig,
    PlatformConfig,
    TFJobPlatformConfig,
)
from tfoperator.launcher.container.templates import rendered_value
from tfoperator.launcher.core.component import Json


class StepResources(msgspec.Struct, frozen=True):
    """The resources of a container: limits and requests for a pod, and options for Docker."""

    limits: dict[str, str]
    requests: dict[str, str]
    docker: Json

    @property
    def pod(self) -> Json:
        """The container `main` of a pod spec, with these resources only."""
        return {"name": "main", "resources": {"limits": self.limits, "requests": self.requests}}


def resources_of(where: str, given: Json) -> StepResources:
    """Return the resources of a container. Raises ComponentError if a value is not a quantity, such as 5Gi."""
    limits, requests = _amounts(where, given, "Limit"), _amounts(where, given, "Request")
    docker: Json = {}
    if "cpu" in limits:
        docker["nano_cpus"] = int(_number(where, limits["cpu"]) * 1e9)
    if "memory" in limits:
        docker["mem_limit"] = int(_number(where, limits["memory"]))
    accelerator = given.get("accelerator", {})
    kind = _text(accelerator.get("resourceType")) or _text(accelerator.get("type"))
    count = _text(accelerator.get("resourceCount")) or _text(accelerator.get("count")) or "1"
    if kind and (number := int(_number(f"{where}.accelerator", count))):
        limits[kind] = count
        docker["device_requests"] = [{"Count": number, "Capabilities": [["gpu"]]}]
    return StepResources(limits, requests, docker)


def with_resources(where: str, given: Json, config: PlatformConfig | None) -> list[PlatformConfig]:
    """Return platform configs with these resources: for Docker, for a pod and for a TFJob.

    If `config` is given, return only the config of its type, with the values of `config` merged over the resources. If
    `config` is for a process, the list is empty: a process has no limits. Raises ComponentError if a resource is not a
    quantity.
    """
    resources = resources_of(where, given)
    pod = {"containers": [resources.pod]}
    layers = [
        DockerPlatformConfig(**resources.docker),
        KubernetesPodPlatformConfig(pod),
        TFJobPlatformConfig(pod_spec=pod),
    ]
    return [
        layer if config is None else layer.merge(config)
        for layer in layers
        if type(config) in (type(None), type(layer))
    ]


def _amounts(where: str, resources: Json, bound: str) -> dict[str, str]:
    amounts = {}
    for name, unit in (("cpu", 1.0), ("memory", 1e9)):
        older = resources.get(f"{name}{bound}")
        amount = _text(resources.get(f"resource{name.capitalize()}{bound}")) or (f"{older * unit:g}" if older else "")
        if amount:
            _number(f"{where}: {name}{bound}", amount)
            amounts[name] = amount
    return amounts


def _text(value: Any) -> str:
    return "" if value is None else rendered_value(value)


def _number(where: str, amount: str) -> float:
    try:
        number = float(parse_quantity(amount))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e18:
        raise ComponentError(f"{where}: {amount[:100]!r} must be an amount, such as 5Gi") from None
    return number
