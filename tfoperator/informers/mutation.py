"""Catching those who write to cached objects: a debugging aid, off by default.

Views are frozen, but a dictionary inside one (labels, a pod template) is not, and a change to it shows in every
thread while the server knows nothing of it. Such a bug is found by comparing objects with what they were on arrival.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from tfoperator.informers.errors import InformerError
from tfoperator.kube.objects import HasMetadata

__all__ = ["CacheMutated", "MutationDetector"]

T = TypeVar("T", bound=HasMetadata)


class CacheMutated(InformerError):
    """An object in the cache is no longer what the server sent."""


class MutationDetector(Generic[T]):
    """Remembers how objects looked. Costs an encoding and its bytes per object; for one thread."""

    def __init__(self, name: str) -> None:
        """`name` is the informer's, for messages."""
        self._name = name
        self._encoder = msgspec.json.Encoder()
        self._known: dict[str, tuple[T, bytes]] = {}

    def replaced(self, old: T | None, new: T | None) -> None:
        """`new` takes the place of `old` in the cache: a last look at the one, a first at the other.

        Raises CacheMutated if `old` is not as it was.
        """
        if old is not None:
            self._check(*self._known.pop(old.metadata.key, (old, b"")))
        if new is not None:
            self._known[new.metadata.key] = (new, self._encoder.encode(new))

    def _check(self, obj: T, before: bytes) -> None:
        after = self._encoder.encode(obj)
        if before and after != before:
            raise CacheMutated(
                f"{self._name} {obj.metadata.key} was changed in the cache, which is shared and read-only: "
                f"was {before.decode()}, is {after.decode()}"
            )
