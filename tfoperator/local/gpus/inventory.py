"""Which GPUs there are, how they are linked, and which of them the user's shell lets us use. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import msgspec

Links = Mapping[frozenset[str], int]
"""How many NVLinks join two GPUs, by their UUIDs; pairs without any are left out."""


class Gpu(msgspec.Struct, frozen=True):
    """One device. `bus` is its PCI address; `peers` are the PCI addresses at the far ends of its NVLinks, each as
    often as there are links to it: other GPUs, or switches.
    """

    uuid: str
    index: int
    name: str = ""
    memory: int = 0
    bus: str = ""
    peers: tuple[str, ...] = ()


def links_between(gpus: Iterable[Gpu]) -> Links:
    """The NVLinks of each pair: direct ones, and the ways over switches that both are joined to."""
    found: dict[frozenset[str], int] = {}
    for one, other in combinations(gpus, 2):
        direct = one.peers.count(other.bus)
        shared = Counter(one.peers) & Counter(other.peers)
        links = direct + shared.total()
        if links:
            found[frozenset((one.uuid, other.uuid))] = links
    return found


def visible(gpus: Sequence[Gpu], cuda_visible_devices: str | None) -> tuple[Gpu, ...]:
    """Those that CUDA would show with this value of CUDA_VISIBLE_DEVICES, in its order; all if it is not set.

    As CUDA reads it: indexes, or UUIDs or the unique beginnings of such; what comes after the first invalid one
    (`-1`, say) is not seen.
    """
    if cuda_visible_devices is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for part in cuda_visible_devices.split(","):
        named = _named(gpus, part.strip())
        if named is None or named in chosen:
            break
        chosen.append(named)
    return tuple(chosen)


def _named(gpus: Sequence[Gpu], name: str) -> Gpu | None:
    if name.isascii() and name.isdigit():
        matching = [gpu for gpu in gpus if gpu.index == int(name)] if len(name) < 4 else []
    else:
        matching = [gpu for gpu in gpus if name.startswith("GPU-") and gpu.uuid.startswith(name)]
    return matching[0] if len(matching) == 1 else None
