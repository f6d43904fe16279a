"""Which of several processes serves which namespace: `--shard N/M`. Pure.

The unit is the namespace, not the job: quotas, queues, gangs and what jobs own are all within one namespace, so no two
processes ever look after objects that depend on each other.

A namespace belongs to exactly one shard of a layout (M shards). Two layouts must never be served at a time, because
each divides the namespaces in its own way. `election` sees to that: all shards of a layout hold one lease together, as
`layout_identity`, and another layout can have it only when they have all ended.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import msgspec

MOST_SHARDS = 100
"""Each has a lease, which the operator's role names."""

_WRITTEN = re.compile(r"(\d{1,4}|auto)/(\d{1,4})", re.ASCII)
_ORDINAL = re.compile(r".*-(\d{1,9})", re.ASCII)
_KNOWN_NAMESPACES = 16_384


class Shard(msgspec.Struct, frozen=True):
    """One of `count` shards; `number` None is to be read off the name of a StatefulSet's pod."""

    count: int
    number: int | None = None

    def __str__(self) -> str:
        return f"{'auto' if self.number is None else self.number}/{self.count}"

    def serves(self, namespace: str) -> bool:
        """Whether this shard looks after the namespace. What has no namespace, "", is for all."""
        return not namespace or shard_of(namespace, self.count) == self.number

    def lease_name(self, name: str) -> str:
        """The lease of this shard alone, for an operator whose lease is `name`."""
        return f"{name}-{self.number}-of-{self.count}"

    @property
    def layout_identity(self) -> str:
        """Who holds the operator's lease while any shard of this layout is served.

        The rule by which namespaces are divided is part of it: a release with another rule would be another layout.
        """
        return f"shards-of-{self.count}-by-namespace"


@lru_cache(_KNOWN_NAMESPACES)
def shard_of(namespace: str, count: int) -> int:
    """The number of the shard that a namespace belongs to: the same in every process, and for ever."""
    return int.from_bytes(hashlib.sha256(namespace.encode()).digest()[:8], "big") % count


def parse_shard(value: object) -> Shard | None:
    """A shard as options write it: `0/3`, or `auto/3` for the pods of a StatefulSet. Empty: none. Raises ValueError."""
    if value == "":
        return None
    match = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be N/M, for example 0/3, or auto/3, is {value!r}")
    count = int(match[2])
    if not 1 <= count <= MOST_SHARDS:
        raise ValueError(f"must be of 1 to {MOST_SHARDS} shards, is {value!r}")
    number = None if match[1] == "auto" else int(match[1])
    if number is not None and number >= count:
        raise ValueError(f"must be one of the shards 0 to {count - 1}, is {value!r}")
    return Shard(count, number)


def settled(shard: Shard, host: str) -> Shard:
    """The shard with its number, of `host`'s ordinal if need be: `tfoperator-4` is shard 1 of 3. Raises ValueError.

    So a StatefulSet with more pods than shards has standbys for the first shards.
    """
    if shard.number is not None:
        return shard
    match = _ORDINAL.fullmatch(host)
    if match is None:
        raise ValueError(f"takes its number from the name of a StatefulSet's pod, such as tfoperator-0, and not {host}")
    return Shard(shard.count, int(match[1]) % shard.count)
