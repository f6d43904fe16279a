"""Records changes that were requested but not observed yet.

A sync must not act on a cache that is older than the writes of earlier syncs. Without expectations, a sync may run
before the watch has delivered the pods that an earlier sync has created. The later sync would create these pods again.
Expectations are kept per owner, replica type and kind, so a slow replica type doesn't delay the other types.
Expectations expire after 5 minutes, as in Kubernetes' own controllers. So a lost watch event can delay a job, but never
block it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

import msgspec
from cachetools import TTLCache

from tfoperator.base.clock import Clock, SystemClock

logger = logging.getLogger(__name__)

DEFAULT_TTL = 300.0
"""Seconds after which an expectation no longer counts. The value is the same as in Kubernetes' controllers."""

DEFAULT_MAX_KEYS = 1 << 20
"""The maximum number of keys. A job uses at most fourteen keys: two kinds for each of five replica types, and four
kinds for objects of no replica (the PodGroup, the deployment of the TensorBoard, services, the pods of the data
service). So the maximum is enough for 74,000 jobs that all created something within one TTL. If the maximum is reached,
the reason is a leak, not load.
"""


class ExpectationKey(msgspec.Struct, frozen=True):
    """The group of objects that a key covers."""

    owner_uid: str
    replica_type: str
    kind: str
    """The kind of objects: the plural name of their resource, such as `pods`."""


def expectation_key(owner_uid: str, replica_type: str | None, kind: str) -> ExpectationKey:
    """Return the key for objects of one replica type. The case of the letters in `replica_type` does not matter.

    With None or "", return the key for objects that belong to no replica.
    """
    return ExpectationKey(owner_uid, (replica_type or "").lower(), kind)


class _Outstanding(msgspec.Struct):
    """The changes under one key that are not observed yet.

    It is mutable, and the lock of its `Expectations` guards it.
    """

    creations: int = 0  # negative if more creations were seen than expected
    deletions: set[str] = set()

    @property
    def fulfilled(self) -> bool:
        return self.creations <= 0 and not self.deletions


class _OwnerIndexedCache(TTLCache[ExpectationKey, _Outstanding]):
    """A TTLCache that also records the keys of each owner.

    When an entry expires, or is removed to make room, the cache also drops the key from this record.

    Not thread-safe.
    """

    def __init__(self, maxsize: int, ttl: float, clock: Clock) -> None:
        super().__init__(maxsize, ttl, timer=clock.monotonic)
        self._keys_of: dict[str, set[ExpectationKey]] = {}
        self.evicted: list[tuple[ExpectationKey, _Outstanding]] = []  # unfulfilled entries that had to make room

    def keys_of(self, owner_uid: str) -> tuple[ExpectationKey, ...]:
        return tuple(self._keys_of.get(owner_uid, ()))

    def find(self, key: ExpectationKey) -> _Outstanding | None:
        """Return the same value as `get`, but faster for keys that mostly exist: `get` reads the time twice."""
        try:
            return self[key]
        except KeyError:
            return None

    def put(self, key: ExpectationKey, value: _Outstanding) -> None:
        """Store the value, and restart the key's time to live."""
        self[key] = value
        self._keys_of.setdefault(key.owner_uid, set()).add(key)

    def discard(self, key: ExpectationKey) -> None:
        self.pop(key, None)
        self._unindex(key)

    def expire(self, time: float | None = None) -> list[tuple[ExpectationKey, _Outstanding]]:
        gone = list(super().expire(time))
        for key, _ in gone:
            self._unindex(key)
        return gone

    def popitem(self) -> tuple[ExpectationKey, _Outstanding]:
        """Remove and return the least recently used entry. The cache itself calls this method when it needs room."""
        key, value = super().popitem()
        self._unindex(key)
        if not value.fulfilled:
            self.evicted.append((key, value))
        return key, value

    def _unindex(self, key: ExpectationKey) -> None:
        keys = self._keys_of.get(key.owner_uid)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._keys_of[key.owner_uid]


class Expectations:
    """A thread-safe, bounded record of creations and deletions that a controller has not seen in its cache yet.

    The order of calls matters: call `expect_creations` or `expect_deletions` *before* the API call. Call
    `creation_observed` or `deletion_observed` in the handler of the watch event, or right after the API call if the API
    call failed. A key counts as satisfied if it was never set, was forgotten or has expired.

    Beyond `max_keys`, the least recently used key is dropped, and counts as satisfied from then on. If changes under
    this key were still pending, a warning is logged. The worst consequence is a create that the API server refuses with
    AlreadyExists, because replica names are deterministic.
    """

    def __init__(
        self, *, ttl: float = DEFAULT_TTL, max_keys: int = DEFAULT_MAX_KEYS, clock: Clock | None = None
    ) -> None:
        if ttl <= 0 or max_keys < 1:
            raise ValueError(f"need ttl > 0 and max_keys >= 1, got ttl={ttl} and max_keys={max_keys}")
        self._lock = threading.Lock()  # guards _cache and every _Outstanding in it
        self._cache = _OwnerIndexedCache(max_keys, ttl, clock or SystemClock())

    def expect_creations(self, key: ExpectationKey, count: int) -> None:
        """Expect `count` objects to appear. Replace the creations that were expected before, and restart the TTL.

        Deletions that are still pending under the key stay: the same sync may create and delete objects.
        """
        with self._lock:
            self._renewed(key).creations = count
            evicted = self._take_evicted()
        self._report(evicted)

    def expect_deletions(self, key: ExpectationKey, uids: Iterable[str]) -> None:
        """Expect the objects with these UIDs to disappear.

        Add them to the deletions that were expected before, and restart the TTL. Creations that are still pending under
        the key stay. Deletions are tracked by UID because the watch often shows the deletion of one object twice
        (marked for deletion, then gone). A counter would count it twice. Unlike client-go's expectations, deletions are
        added to the deletions that are already expected: one sync may delete in several steps. If a later step replaced
        the deletions of an earlier step, the operator would take a deleted object, which the cache still contains, for
        an existing object. When the object then disappears from the cache, the operator would treat it as deleted by
        another process.
        """
        pending = set(uids)
        with self._lock:
            self._renewed(key).deletions |= pending
            evicted = self._take_evicted()
        self._report(evicted)

    def creation_observed(self, key: ExpectationKey) -> None:
        """Record that one creation was seen, or that it failed.

        The call does nothing if the key isn't set. The count may become negative, if more creations are seen than were
        expected. A negative count also counts as satisfied.
        """
        with self._lock:
            outstanding = self._cache.find(key)
            if outstanding is not None:
                outstanding.creations -= 1

    def deletion_observed(self, key: ExpectationKey, uid: str) -> bool:
        """Record that the deletion of `uid` was seen, or that it failed.

        The call ignores a UID that is not pending. It returns True if this was the last pending change under the key.
        """
        with self._lock:
            outstanding = self._cache.find(key)
            if outstanding is None or uid not in outstanding.deletions:
                return False
            outstanding.deletions.discard(uid)
            return outstanding.fulfilled

    def outstanding(self, owner_uid: str) -> dict[ExpectationKey, frozenset[str]]:
        """Return the keys of this owner that are not satisfied, each with the UIDs whose deletion is pending.

        If only creations are pending under a key, the key has no UIDs. Call this method before you read the caches: the
        caches then show all changes of satisfied keys. O(keys of the owner).
        """
        with self._lock:
            found = ((key, self._cache.get(key)) for key in self._cache.keys_of(owner_uid))
            return {
                key: frozenset(expected.deletions)
                for key, expected in found
                if expected is not None and not expected.fulfilled
            }

    def forget(self, key: ExpectationKey) -> None:
        """Expect nothing more under this key."""
        with self._lock:
            self._cache.discard(key)

    def forget_owner(self, owner_uid: str) -> None:
        """Expect nothing more for this owner, which no longer exists. O(keys of the owner)."""
        with self._lock:
            for key in self._cache.keys_of(owner_uid):
                self._cache.discard(key)

    def _renewed(self, key: ExpectationKey) -> _Outstanding:
        outstanding = self._cache.get(key)
        # A fulfilled record may hold a negative count, which must not offset the new expectations.
        if outstanding is None or outstanding.fulfilled:
            outstanding = _Outstanding()
        self._cache.put(key, outstanding)
        return outstanding

    def _take_evicted(self) -> list[tuple[ExpectationKey, _Outstanding]]:
        evicted, self._cache.evicted = self._cache.evicted, []
        return evicted

    def _report(self, evicted: list[tuple[ExpectationKey, _Outstanding]]) -> None:
        for key, outstanding in evicted:
            logger.warning(
                "more than %d expectations are recorded: no longer waiting for %d creations and %d deletions of %s",
                self._cache.maxsize,
                max(0, outstanding.creations),
                len(outstanding.deletions),
                "/".join(msgspec.structs.astuple(key)),
            )
