"""Finds the changes that a cache has missed, by comparing the cache with the live state at two looks. No I/O.

A look is one reading of the live state.

A single difference between the server and the cache proves nothing, because the cache may be slightly behind or already
ahead. The cache has certainly missed a change in two cases. In the first case, two looks show the same difference, and
the cache has received nothing between them. In the second case, the cache has received changes that are later than the
missing change. A cache that receives changes, but has not reached this change yet, is only late. Another list would
delay it more. If resourceVersions can't be compared, the same difference at both looks is enough.

If resourceVersions can be compared, the first look already shows whether the cache is ahead: then the version of the
cached object is newer than the version of the whole list. A cached object that is only newer than the object in the
list does not show this. After a restore of the server from a backup, the cached objects are newer than the server's
objects, but the cache is wrong, and watches don't report this.

The server's answer comes in pieces: pages of a list, or events of a watch. Each piece is compared with the cache at
once, and only the differences are kept. So a look at a hundred thousand objects needs memory for only one page of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tfoperator.controller import is_older
from tfoperator.kube.views.objects import HasMetadata

Lookup = Callable[[Sequence[str]], Sequence[HasMetadata | None]]
"""A function that returns the cached objects for these keys, in the order of the keys (None: not in the cache)."""


class Version(NamedTuple):
    """The identity of one state of an object."""

    uid: str
    resource_version: str


class Difference(NamedTuple):
    """An object for which the server and the cache show different states.

    `live` is None if the server does not have the object, and `cached` is None if the cache does not have it. `as_of`
    is the version of the server's answer. `reached` is the version that the cache had reached by then.
    """

    live: Version | None
    cached: Version | None
    as_of: str
    reached: str

    def proves_a_loss(self, now: Difference) -> bool:
        """Return whether the cache has certainly missed a change.

        `now` is the difference of this object at the next comparison.
        """
        if (self.live, self.cached) != (now.live, now.cached):
            return False
        stands_still = now.reached == self.reached
        change = self.as_of if self.live is None else self.live.resource_version
        return stands_still or not is_older(now.reached, change)


class Sighting(NamedTuple):
    """The server's last answer about an object.

    `live` is the object's state (None if the object does not exist), `owner` is the UID of the object's controller, and
    `as_of` is the version of the answer.
    """

    live: Version | None
    owner: str
    as_of: str


Differences = Mapping[str, Mapping[str, Difference]]
"""Differences by owner and object. The first key is the UID of the controlling owner ("" if there is none), the second
is the object's key.
"""

NO_DIFFERENCES: Differences = {}


class Suspicion(msgspec.Struct):
    """The differences of a job's objects at the last comparison, which are not certain yet.

    The next comparison may confirm them.
    """

    found: Mapping[str, Mapping[str, Difference]] = {}  # by resource and key
    waiting: bool = False  # whether expectations are open, although the caches equal the live state

    def confirmed(self, found: Mapping[str, Mapping[str, Difference]]) -> dict[str, set[str]]:
        """Return, by resource, the keys whose difference is certain after the comparison that has found `found`."""
        before = self.found
        return {kind: confirmed(before.get(kind, {}), differences) for kind, differences in found.items()}


class Collation:
    """Compares one collection of the server (for example pods) with its cache, and keeps the differences.

    Not thread-safe. A whole list starts the comparison again: call `list_begins`, `listed` for each page, and
    `list_ended`. Later watch events continue the comparison: call `happened` for each event.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._unlisted: set[str] = set()
        self._odd: dict[str, Sighting] = {}

    @property
    def differs(self) -> bool:
        """Whether the cache differed from the server at the last comparison."""
        return bool(self._odd)

    def list_begins(self, cached_keys: Iterable[str]) -> None:
        """Begin a whole list; `cached_keys` are all keys of the cache."""
        self._unlisted = set(cached_keys)
        self._odd = {}

    def listed(self, items: Sequence[HasMetadata], version: str) -> None:
        """Compare a page of the list with the cache. `version` is the list's resourceVersion."""
        keys = [item.metadata.key for item in items]
        self._unlisted.difference_update(keys)
        for key, item, cached in zip(keys, items, self._lookup(keys), strict=True):
            if _version(item) != _version(cached):
                self._odd[key] = Sighting(_version(item), _owner(item), version)

    def list_ended(self, version: str) -> None:
        """End the list. Cached objects that were on no page do not exist on the server at this `version`."""
        for key in self._unlisted:
            self._odd[key] = Sighting(None, "", version)
        self._unlisted = set()

    def happened(self, item: HasMetadata, *, deleted: bool) -> None:
        """Add an object from a later watch event. For each object, only the newest event counts."""
        meta = item.metadata
        self._odd[meta.key] = Sighting(None if deleted else _version(item), _owner(item), meta.resource_version)

    def differences(self, reached: str) -> Differences:
        """Return the current differences.

        `reached` is the resourceVersion up to which the cache has received all events. An object is forgotten if the
        cache shows the same state as the server, or a newer state.
        """
        by_owner: dict[str, dict[str, Difference]] = {}
        odd = {}
        for (key, sighting), cached in zip(self._odd.items(), self._lookup(list(self._odd)), strict=True):
            difference = Difference(sighting.live, _version(cached), sighting.as_of, reached)
            if difference.live == difference.cached or _is_ahead(sighting, difference.cached):
                continue
            odd[key] = sighting
            for owner in {sighting.owner, _owner(cached)} if sighting.live is not None else {_owner(cached)}:
                by_owner.setdefault(owner, {})[key] = difference
        self._odd = odd
        return by_owner


def confirmed(before: Mapping[str, Difference], now: Mapping[str, Difference]) -> set[str]:
    """Return the keys for which the cache has missed a change, as two successive comparisons show."""
    return {key for key, difference in now.items() if key in before and before[key].proves_a_loss(difference)}


def merged(groups: Iterable[Mapping[str, Difference]]) -> Mapping[str, Difference]:
    """Return the differences of all groups in one mapping, by key."""
    return {key: difference for group in groups for key, difference in group.items()}


def _version(obj: HasMetadata | None) -> Version | None:
    return None if obj is None else Version(obj.metadata.uid, obj.metadata.resource_version)


def _owner(obj: HasMetadata | None) -> str:
    controller = None if obj is None else obj.metadata.controller
    return "" if controller is None else controller.uid


def _is_ahead(sighting: Sighting, cached: Version | None) -> bool:
    """Return whether the cached object is certainly newer than the server's answer.

    If the versions can't be compared, return False.
    """
    return cached is not None and is_older(sighting.as_of, cached.resource_version) is True
