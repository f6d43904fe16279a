"""What a cache has missed, judged from two looks at the live state. Pure.

One difference between a live list and the cache proves nothing: the cache may be a moment behind, or already ahead. It
is certain when neither has moved between two looks: had the watch been alive, the cache would have followed. Where
resourceVersions can be compared, a cache that is ahead is recognised at the first look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfoperator.controller import is_older


class Version(NamedTuple):
    """One state of one object."""

    uid: str
    resource_version: str


class Difference(NamedTuple):
    """An object that the server and the cache show differently; None where it is missing."""

    live: Version | None
    cached: Version | None


def differences(live: Mapping[str, Version], cached: Mapping[str, Version], live_version: str) -> dict[str, Difference]:
    """Objects (by key) that look different in the live list and in a cache that was read after it.

    `live_version` is the list's resourceVersion. What is newer in the cache than in the list is no difference.
    """
    found: dict[str, Difference] = {}
    for key in live.keys() | cached.keys():
        difference = Difference(live.get(key), cached.get(key))
        if difference.live != difference.cached and not _is_ahead(difference, live_version):
            found[key] = difference
    return found


def confirmed(before: Mapping[str, Difference], now: Mapping[str, Difference]) -> set[str]:
    """The keys whose difference was there at the last look and is exactly the same now."""
    return {key for key, difference in now.items() if before.get(key) == difference}


def _is_ahead(difference: Difference, live_version: str) -> bool:
    """Whether the cache knows something that happened after the list. Certain or False."""
    if difference.cached is None:
        return False
    seen = difference.live.resource_version if difference.live is not None else live_version
    return is_older(seen, difference.cached.resource_version) is True
