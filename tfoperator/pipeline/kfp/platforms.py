"""The platform configs of an IR's executors: their resources and variables, and what is said for our own platform."""

from __future__ import annotations

import re

import msgspec

from tfoperator.api.quantity import parse_quantity
from tfoperator.kube.pod_spec import verbatim
from tfoperator.launcher import (
    ComponentError,
    DockerPlatformConfig,
    KubernetesPodPlatformConfig,
    PlatformConfig,
    ProcessPlatformConfig,
    RetryPolicy,
    TFJobPlatformConfig,
)
from tfoperator.launcher.component_file import Platforms, platform_configs
from tfoperator.launcher.core.component import Json

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


def configs_of(label: str, container: Json, ours: Json) -> dict[str, PlatformConfig]:
    """Return, by platform, the config of an executor. Raises ComponentError.

    `ours` is what the second document has for it: what component.yaml has as `platforms`.
    """
    variables = {one.get("name", ""): one.get("value", "") for one in container.get("env", ())}
    resources = container.get("resources", {})
    limits, requests = _amounts(label, resources, "Limit"), _amounts(label, resources, "Request")
    accelerator = resources.get("accelerator", {})
    if kind := accelerator.get("resourceType") or accelerator.get("type"):
        limits[kind] = accelerator.get("resourceCount") or accelerator.get("count", "1")
    main: Json = {"name": "main", "env": [{"name": name, "value": verbatim(one)} for name, one in variables.items()]}
    pod = {"containers": [{**main, "resources": {"limits": limits, "requests": requests}}]}
    docker: Json = {"environment": variables}
    if "cpu" in limits:
        docker["nano_cpus"] = int(_number(label, limits["cpu"]) * 1e9)
    if "memory" in limits:
        docker["mem_limit"] = int(_number(label, limits["memory"]))
    if kind:
        count = _number(f"executors.{label}.container.resources.accelerator", limits[kind])
        docker["device_requests"] = [{"Count": int(count), "Capabilities": [["gpu"]]}]
    made: dict[str, PlatformConfig] = {
        "docker": DockerPlatformConfig(**docker),
        "process": ProcessPlatformConfig(variables),
        "kubernetes": KubernetesPodPlatformConfig(pod),
    }
    try:
        given = platform_configs(msgspec.convert(ours, Platforms))
    except msgspec.ValidationError as error:
        raise ComponentError(f"platforms.tfoperator.deploymentSpec.executors.{label}: {error}") from None
    for config in given:
        if isinstance(config, TFJobPlatformConfig):
            made["kubernetes"] = TFJobPlatformConfig(pod_spec=pod)
        for platform, one in made.items():
            made[platform] = one.merge(config) if type(one) is type(config) else one
    return made


def retry_of(where: str, given: Json | None) -> RetryPolicy | None:
    """Return how often a task is tried again, whatever its failure is. Raises ComponentError."""
    if given is None:
        return None
    seconds = []
    for field, default in (("backoffDuration", "0s"), ("backoffMaxDuration", "3600s")):
        if (match := _SECONDS.fullmatch(given.get(field, default))) is None:
            raise ComponentError(f"{where}.retryPolicy.{field}: {given[field]!r} is no number of seconds, such as 5s")
        seconds.append(float(match[1]))
    attempts, factor = given.get("maxRetryCount", 0) + 1, given.get("backoffFactor") or 2.0
    return RetryPolicy(attempts, seconds[0], seconds[1], 0.0, factor=factor, any_failure=True)


def _amounts(label: str, resources: Json, bound: str) -> dict[str, str]:
    found = {}
    for name, unit in (("cpu", 1.0), ("memory", 1e9)):
        older = resources.get(f"{name}{bound}")
        amount = resources.get(f"resource{name.capitalize()}{bound}") or (f"{older * unit:g}" if older else "")
        if amount:
            _number(f"executors.{label}.container.resources: {name}{bound}", amount)
            found[name] = amount
    return found


def _number(where: str, amount: str) -> float:
    try:
        return float(parse_quantity(amount))
    except ValueError:
        raise ComponentError(f"{where}: {amount!r} is no amount") from None
