"""Computes the resources that a pod made from a template requests, by the rules of Kubernetes' schedulers.

If a container has a limit but no request, the limit counts as its request. Init containers run one after the other. So
only the largest init container counts, and only if it is larger than all containers together. Init containers that keep
running (`restartPolicy: Always`) count with the containers. A LimitRange or a RuntimeClass may add resources when the
pod is created. This module does not include these additions.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import msgspec

from tfoperator.api.fields.quantity import format_quantity, is_binary, parse_quantity
from tfoperator.controller.pods.template import PodTemplateError, Template, an_object, list_of_objects

_POD_LEVEL_RESOURCES = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"
"""The prefix of the names of resources that `spec.resources` of a pod may contain besides CPU and memory."""


class ResourceAmounts:
    """A sum of resources: amounts by resource name. Not thread-safe."""

    def __init__(self) -> None:
        self._amounts: dict[str, Fraction] = {}
        self._binary: set[str] = set()

    def add(self, other: ResourceAmounts, times: int = 1) -> None:
        """Add the amounts of `other`, multiplied by `times`."""
        for name, amount in other._amounts.items():
            self._amounts[name] = self._amounts.get(name, Fraction(0)) + amount * times
        self._binary |= other._binary

    def at_least(self, other: ResourceAmounts) -> None:
        """Raise each amount to the amount of `other`, if that amount is larger."""
        for name, amount in other._amounts.items():
            self._amounts[name] = max(self._amounts.get(name, amount), amount)
        self._binary |= other._binary

    def put(self, name: str, amount: object, path: str) -> None:
        """Set one amount. Raises PodTemplateError, which names `path`, if the value is not a quantity."""
        try:
            self._amounts[name] = parse_quantity(amount)
        except ValueError as error:
            raise PodTemplateError(f"{path}[{name}]: {error}") from None
        if is_binary(amount):
            self._binary.add(name)

    def has(self, name: str) -> bool:
        """Return whether this resource has an amount, even 0."""
        return name in self._amounts

    def amounts(self) -> list[tuple[str, Fraction]]:
        """Return the amounts other than 0, in the order of the names."""
        return sorted((name, amount) for name, amount in self._amounts.items() if amount)

    def quantities(self) -> dict[str, str]:
        """Return the amounts other than 0 as quantities in Kubernetes' notation, in the order of the names."""
        return {name: format_quantity(amount, binary=name in self._binary) for name, amount in self.amounts()}


def pod_requests(template: Template) -> ResourceAmounts:
    """Return the requests of one pod of the template. Raises PodTemplateError if the requests can't be read."""
    return _of_pod(template.spec, f"{template.path}.spec")


def requests_of(pod: str) -> dict[str, float]:
    """Return the requests of a pod as numbers; `pod` is the text in `PodSpec.requests`.

    Raises PodTemplateError if the requests can't be read.
    """
    return {name: float(amount) for name, amount in _of_pod(msgspec.json.decode(pod), "spec").amounts()}


def _of_pod(spec: dict[str, Any], path: str) -> ResourceAmounts:
    total = ResourceAmounts()
    for position, container in enumerate(list_of_objects(spec.get("containers"), f"{path}.containers")):
        total.add(_of_container(container, f"{path}.containers[{position}]"))
    init_containers = list_of_objects(spec.get("initContainers"), f"{path}.initContainers")
    _add_init_containers(total, init_containers, f"{path}.initContainers")
    _apply_pod_level(total, spec.get("resources"), f"{path}.resources")
    overhead = ResourceAmounts()
    for name, amount in an_object(spec.get("overhead"), f"{path}.overhead").items():
        overhead.put(name, amount, f"{path}.overhead")
    total.add(overhead)
    return total


def _add_init_containers(total: ResourceAmounts, containers: Iterable[dict[str, Any]], path: str) -> None:
    kept, most = ResourceAmounts(), ResourceAmounts()
    for position, container in enumerate(containers):
        own = _of_container(container, f"{path}[{position}]")
        running = ResourceAmounts()
        running.add(kept)
        running.add(own)
        if container.get("restartPolicy") == "Always":
            kept = running
            total.add(own)
        most.at_least(running)
    total.at_least(most)


def _apply_pod_level(total: ResourceAmounts, resources: object, path: str) -> None:
    """Replace the sum of the containers' requests by the pod's own requests.

    Use the pod's limits for resources without any request.
    """
    if resources is None:
        return
    own = _of_container({"resources": resources}, path.removesuffix(".resources"))
    requested = an_object(an_object(resources, path).get("requests"), f"{path}.requests")
    for name, amount in own.quantities().items():
        if not (name in _POD_LEVEL_RESOURCES or name.startswith(_POD_LEVEL_PREFIX)):
            continue
        if name in requested or not total.has(name):
            total.put(name, amount, path)


def _of_container(container: dict[str, Any], path: str) -> ResourceAmounts:
    amounts = ResourceAmounts()
    path = f"{path}.resources"
    resources = an_object(container.get("resources"), path)
    for kind in ("requests", "limits"):
        for name, amount in an_object(resources.get(kind), f"{path}.{kind}").items():
            if not amounts.has(name):
                amounts.put(name, amount, f"{path}.{kind}")
    return amounts
