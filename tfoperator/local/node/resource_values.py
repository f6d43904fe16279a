"""What a container's limits and requests are worth as the value of a variable, as the kubelet computes it. Pure."""

from __future__ import annotations

import math
from fractions import Fraction

from tfoperator.api.quantity import parse_quantity
from tfoperator.kube.pod_spec import Container, ResourceRef
from tfoperator.local.runtime import LocalPod
from tfoperator.local.usage import Machine

_OFFERED = ("cpu", "memory", "ephemeral-storage")


def resource_value(pod: LocalPod, container: Container, reference: ResourceRef, machine: Machine) -> str:
    """The limit or request, divided by the divisor and rounded up.

    Without a limit of CPU or memory it is what the machine has, and a request that isn't there is 0. Raises ValueError
    for a reference that API servers refuse.
    """
    kind, _, resource = reference.resource.partition(".")
    if kind not in ("limits", "requests") or not (resource in _OFFERED or resource.startswith("hugepages-")):
        raise ValueError(f"resourceFieldRef {reference.resource!r}: there are limits and requests of {_listed()}")
    chosen = container
    if reference.container_name not in ("", container.name):
        named = [one for one in _containers(pod) if one.name == reference.container_name]
        if not named:
            raise ValueError(f"resourceFieldRef: the pod has no container {reference.container_name!r}")
        chosen = named[0]
    value = _quantity(chosen, kind, resource, machine)
    divisor = _number(reference.divisor) or Fraction(1)
    if resource == "cpu":  # counted in thousandths, as the kubelet does
        return str(math.ceil(Fraction(math.ceil(value * 1000), math.ceil(divisor * 1000))))
    return str(math.ceil(Fraction(math.ceil(value), math.ceil(divisor))))


def _quantity(container: Container, kind: str, resource: str, machine: Machine) -> Fraction:
    resources = container.resources
    limits = (resources.limits if resources is not None else None) or {}
    if kind == "limits":
        whole = {"cpu": machine.cpus, "memory": machine.memory}
        return _number(limits.get(resource, whole.get(resource)))
    requests = (resources.requests if resources is not None else None) or {}
    return _number(requests.get(resource))


def _number(quantity: str | int | float | None) -> Fraction:
    """None is 0. API servers take a fraction such as 0.5, too."""
    return parse_quantity(str(quantity) if isinstance(quantity, float) else quantity or 0)


def _containers(pod: LocalPod) -> tuple[Container, ...]:
    return (*pod.spec.containers, *(pod.spec.init_containers or ()))


def _listed() -> str:
    return ", ".join((*_OFFERED, "hugepages-*"))
