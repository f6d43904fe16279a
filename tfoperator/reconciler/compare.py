"""Finds the changes that a cache has missed, from the API server's answers at two looks. Pure.

One difference between the server and the cache proves nothing: the cache may be a moment behind, or already ahead. It
is certain when two looks show it and the cache stands still between them, or has passed the change without showing it.
A cache that moves and has not reached the change yet is late, however long that takes: another list would delay it
more. Where resourceVersions can't be compared, the second look decides alone.

Where they can be compared, a cache that is ahead is recognised at the first look: it shows a version that is younger
than the whole list, not only than the object in it. The object's version is not enough: a server that was restored from
a backup has objects that are older than in the cache, and watches don't report that.

The server's answer comes in pieces (pages of a list, events of a watch). Each is compared with the cache at once, and
only differences are kept, so that a look at a hundred thousand objects holds one page of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tfoperator.controller import is_older
from tfoperator.kube.views.objects import HasMetadata

Lookup = Callable[[Sequence[str]], Sequence[HasMetadata | None]]
"""Returns the cache's objects under these keys, in their order."""


class Version(NamedTuple):
    """One state of one object."""

    uid: str
    resource_version: str


class Difference(NamedTuple):
    """An object that the server and the cache show differently; None where it is missing.

    `as_of` is the version of the server's answer, and `reached` the version that the cache had reached at this look.
    """

    live: Version | None
    cached: Version | None
    as_of: str
    reached: str

    def proves_a_loss(self, now: Difference) -> bool:
        """Return whether the cache has missed a change, if it differs at the next look as `now` shows."""
        if (self.live, self.cached) != (now.live, now.cached):
            return False
        stands_still = now.reached == self.reached
        change = self.as_of if self.live is None else self.live.resource_version
        return stands_still or not is_older(now.reached, change)


class Sighting(NamedTuple):
    """The server's last state of an object (None: it does not exist), its owner, and the version of the answer."""

    live: Version | None
    owner: str
    as_of: str


Differences = Mapping[str, Mapping[str, Difference]]
"""By the UID of the controlling owner ("" for none), then by key."""

NO_DIFFERENCES: Differences = {}


class Suspicion(msgspec.Struct):
    """The differences of a job at the last look, which the next look may confirm."""

    found: Mapping[str, Mapping[str, Difference]] = {}  # by resource and key
    waiting: bool = False  # for expected events, although the caches are right

    def confirmed(self, found: Mapping[str, Mapping[str, Difference]]) -> dict[str, set[str]]:
        """Return the keys by resource whose difference is certain, after this look."""
        before = self.found
        return {kind: confirmed(before.get(kind, {}), differences) for kind, differences in found.items()}


class Collation:
    """One collection of the server, compared with its cache. Not thread-safe.

    A whole list restarts it (`list_begins`, `listed` for each page, `list_ended`), and later changes continue it
    (`happened`), for as long as the server sends them.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._unlisted: set[str] = set()
        self._odd: dict[str, Sighting] = {}

    def list_begins(self, cached_keys: Iterable[str]) -> None:
        """Begin a whole list; `cached_keys` are all keys of the cache."""
        self._unlisted = set(cached_keys)
        self._odd = {}

    def listed(self, items: Sequence[HasMetadata], version: str) -> None:
        """Add a page of the list, which shows its objects as of this version."""
        keys = [item.metadata.key for item in items]
        self._unlisted.difference_update(keys)
        for key, item, cached in zip(keys, items, self._lookup(keys), strict=True):
            if _version(item) != _version(cached):
                self._odd[key] = Sighting(_version(item), _owner(item), version)

    def list_ended(self, version: str) -> None:
        """End the list, at this version: the other objects in the cache do not exist."""
        for key in self._unlisted:
            self._odd[key] = Sighting(None, "", version)
        self._unlisted = set()

    def happened(self, item: HasMetadata, *, deleted: bool) -> None:
        """Add a later change from the server; the newest change counts."""
        meta = item.metadata
        self._odd[meta.key] = Sighting(None if deleted else _version(item), _owner(item), meta.resource_version)

    def differences(self, reached: str) -> Differences:
        """Return the current differences; `reached` is a version that the cache has reached by now.

        Objects that the cache shows as the server does, or newer, are forgotten.
        """
        found: dict[str, dict[str, Difference]] = {}
        odd = {}
        for (key, sighting), cached in zip(self._odd.items(), self._lookup(list(self._odd)), strict=True):
            difference = Difference(sighting.live, _version(cached), sighting.as_of, reached)
            if difference.live == difference.cached or _is_ahead(sighting, difference.cached):
                continue
            odd[key] = sighting
            for owner in {sighting.owner, _owner(cached)} if sighting.live is not None else {_owner(cached)}:
                found.setdefault(owner, {})[key] = difference
        self._odd = odd
        return found


def confirmed(before: Mapping[str, Difference], now: Mapping[str, Difference]) -> set[str]:
    """Return the keys of which the cache has missed a change, as two looks in a row show."""
    return {key for key, difference in now.items() if key in before and before[key].proves_a_loss(difference)}


def merged(groups: Iterable[Mapping[str, Difference]]) -> Mapping[str, Difference]:
    """Return the members of all groups."""
    return {key: difference for group in groups for key, difference in group.items()}


def _version(obj: HasMetadata | None) -> Version | None:
    return None if obj is None else Version(obj.metadata.uid, obj.metadata.resource_version)


def _owner(obj: HasMetadata | None) -> str:
    controller = None if obj is None else obj.metadata.controller
    return "" if controller is None else controller.uid


def _is_ahead(sighting: Sighting, cached: Version | None) -> bool:
    """Return whether the cache has a change from after the server's answer. Certain or False."""
    return cached is not None and is_older(sighting.as_of, cached.resource_version) is True
