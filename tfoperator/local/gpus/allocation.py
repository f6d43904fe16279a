"""The GPUs and the links between them, the number that a pod requests, and their allocation to pods.

The functions are pure: they get the state as an argument.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.kube.views.pod_spec import GPU, Container
from tfoperator.local.runtime.process.programs import shown_devices
from tfoperator.local.runtime.protocol import LocalPod

_MAX_COMBINATIONS = 5_000
"""The maximum number of subsets to compare, which takes a tenth of a second. 14 devices have at most 3,432 subsets
of the same size. With more subsets, `choose` makes a good choice, which may not be the best.
"""

Links = Mapping[frozenset[str], int]
"""The number of NVLinks between two GPUs, by their UUIDs. Pairs without a link are left out."""


class Gpu(msgspec.Struct, frozen=True):
    """One device.

    `bus` is the PCI address of the GPU. `peers` are the PCI addresses at the other ends of its NVLinks. An address (of
    another GPU or of a switch) occurs once for each link.
    """

    uuid: str
    index: int
    name: str = ""
    memory: int = 0
    bus: str = ""
    peers: tuple[str, ...] = ()


def links_between(gpus: Iterable[Gpu]) -> Links:
    """Return the number of NVLinks between any two GPUs, by the pair of their UUIDs. Leave out pairs without a link.

    A link through a switch to which both GPUs are connected counts, too.
    """
    links_by_pair: dict[frozenset[str], int] = {}
    for gpu, other in combinations(gpus, 2):
        direct = gpu.peers.count(other.bus)
        shared = Counter(gpu.peers) & Counter(other.peers)
        links = direct + shared.total()
        if links:
            links_by_pair[frozenset((gpu.uuid, other.uuid))] = links
    return links_by_pair


def visible(gpus: Sequence[Gpu], cuda_visible_devices: str | None) -> tuple[Gpu, ...]:
    """Return the devices that CUDA shows with this CUDA_VISIBLE_DEVICES, in the order of the variable.

    Return all devices if the variable is not set.
    """
    if cuda_visible_devices is None:
        return tuple(gpus)
    uuids, indexes = [gpu.uuid for gpu in gpus], [gpu.index for gpu in gpus]
    return tuple(gpus[position] for position in shown_devices(uuids, indexes, cuda_visible_devices))


def asked_for(container: Container) -> int:
    """Return the number of GPUs that a container requests; 0 for a fraction, which the API server rejects."""
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
    """Return the number of GPUs that a pod needs.

    This is the sum over the pod's containers. If an init container requests more GPUs than this sum, the pod needs the
    number of this init container.
    """
    init = [asked_for(container) for container in pod.spec.init_containers or ()]
    return max([sum(asked_for(container) for container in pod.spec.containers), *init])


def share(pod: LocalPod, container: Container, devices: Sequence[str]) -> tuple[str, ...]:
    """Return the pod's devices that this container gets.

    `devices` are all devices of the pod. The containers that run at the same time get different devices.
    """
    if any(init.name == container.name for init in pod.spec.init_containers or ()):
        return tuple(devices[: asked_for(container)])
    first = 0
    for earlier in pod.spec.containers:
        if earlier.name == container.name:
            break
        first += asked_for(earlier)
    return tuple(devices[first : first + asked_for(container)])


def choose(count: int, free: Sequence[str], links: Links) -> tuple[str, ...] | None:
    """Return `count` free devices with the most NVLinks between them. Return None if there aren't enough free devices.

    If several sets have the same number of links, prefer the set with the fewest links to the remaining devices. So
    linked devices remain for the next pod. If several sets are still equal, take the first.
    """
    if count > len(free):
        return None
    if math.comb(len(free), count) <= _MAX_COMBINATIONS:
        candidates: Iterable[tuple[str, ...]] = combinations(free, count)
    else:
        candidates = (_grown(first, count, free, links) for first in free)
    return max(candidates, key=lambda chosen: _worth(chosen, free, links))


def _worth(chosen: Collection[str], free: Iterable[str], links: Links) -> tuple[int, int]:
    inside = sum(links.get(frozenset(pair), 0) for pair in combinations(chosen, 2))
    outside = sum(
        links.get(frozenset((device, other)), 0) for other in free if other not in chosen for device in chosen
    )
    return inside, -outside


def _grown(first: str, count: int, free: Sequence[str], links: Links) -> tuple[str, ...]:
    """Return `count` devices.

    Start with `first`, and repeatedly add the device with the most links to the devices that are already chosen.
    """
    chosen = [first]
    while len(chosen) < count:
        others = [device for device in free if device not in chosen]
        chosen.append(
            max(others, key=lambda device: sum(links.get(frozenset((device, friend)), 0) for friend in chosen))
        )
    return tuple(device for device in free if device in chosen)
