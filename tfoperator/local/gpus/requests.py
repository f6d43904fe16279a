"""How many GPUs a pod asks for, and which of its containers gets which. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.quantity import parse_quantity
from tfoperator.kube.pod_spec import GPU, Container
from tfoperator.local.runtime import LocalPod


def asked_for(container: Container) -> int:
    """How many GPUs a container asks for; what is no whole number is none, since the API server refuses it."""
    resources = container.resources
    if resources is None:
        return 0
    value = (resources.limits or {}).get(GPU, (resources.requests or {}).get(GPU, 0))
    try:
        number = parse_quantity(value)
    except ValueError:
        return 0
    return int(number) if number.denominator == 1 else 0


def needed(pod: LocalPod) -> int:
    """How many a pod needs: all of its containers at once, or its hungriest init container, since these run before."""
    init = [asked_for(container) for container in pod.spec.init_containers or ()]
    return max([sum(asked_for(container) for container in pod.spec.containers), *init])


def share(pod: LocalPod, container: Container, devices: Sequence[str]) -> tuple[str, ...]:
    """Those of the pod's devices that are this container's: none that another one of its containers has meanwhile."""
    if any(one.name == container.name for one in pod.spec.init_containers or ()):
        return tuple(devices[: asked_for(container)])
    first = 0
    for one in pod.spec.containers:
        if one.name == container.name:
            break
        first += asked_for(one)
    return tuple(devices[first : first + asked_for(container)])
