"""Who gets which GPUs. Pure: the state is an argument, or belongs to an object without locks, clocks and files."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from tfoperator.local.gpus.inventory import Links

_MOST_COMBINATIONS = 5_000
"""Any part of 14 devices is fewer, which takes a tenth of a second; beyond that, a good choice has to do."""


def choose(count: int, free: Sequence[str], links: Links) -> tuple[str, ...] | None:
    """`count` of the free devices, those with most NVLinks among each other; None if there aren't so many.

    Of equals those whose links to the devices left over are fewest, so that neighbours stay together for whoever comes
    next, and of these the first ones.
    """
    if count > len(free):
        return None
    if math.comb(len(free), count) <= _MOST_COMBINATIONS:
        candidates: Iterable[tuple[str, ...]] = combinations(free, count)
    else:
        candidates = (_grown(first, count, free, links) for first in free)
    return max(candidates, key=lambda chosen: _worth(chosen, free, links))


def _worth(chosen: Collection[str], free: Iterable[str], links: Links) -> tuple[int, int]:
    inside = sum(links.get(frozenset(pair), 0) for pair in combinations(chosen, 2))
    outside = sum(links.get(frozenset((one, other)), 0) for other in free if other not in chosen for one in chosen)
    return inside, -outside


def _grown(first: str, count: int, free: Sequence[str], links: Links) -> tuple[str, ...]:
    """From one device on, the best neighbour of all before, again and again."""
    chosen = [first]
    while len(chosen) < count:
        others = [one for one in free if one not in chosen]
        chosen.append(max(others, key=lambda one: sum(links.get(frozenset((one, friend)), 0) for friend in chosen)))
    return tuple(one for one in free if one in chosen)


class Allocations:
    """Which owner has which devices. Not thread-safe."""

    def __init__(self, devices: Sequence[str], links: Links) -> None:
        self._devices = tuple(devices)
        self._links = links
        self._held: dict[str, tuple[str, ...]] = {}  # by owner

    def held_by(self, owner: str) -> tuple[str, ...] | None:
        """What an owner has; None if nothing was allocated to it."""
        return self._held.get(owner)

    def free(self) -> tuple[str, ...]:
        """The devices that nobody has."""
        taken = {device for devices in self._held.values() for device in devices}
        return tuple(device for device in self._devices if device not in taken)

    def allocate(self, owner: str, count: int, *, available: Collection[str]) -> tuple[str, ...] | None:
        """Give an owner `count` of the free devices that are `available`; None if there aren't so many.

        An owner that has some keeps exactly these, whatever it asks for.
        """
        held = self._held.get(owner)
        if held is not None:
            return held
        chosen = choose(count, [device for device in self.free() if device in available], self._links)
        if chosen is not None:
            self._held[owner] = chosen
        return chosen

    def release(self, owner: str) -> tuple[str, ...]:
        """Take back what an owner has; returns it. Nothing, if it has none."""
        return self._held.pop(owner, ())
