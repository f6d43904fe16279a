"""Which objects a journal and its snapshots are, and which of them nobody needs any more.

An entry can't be removed as soon as a snapshot has it: a process whose copy is older would take the gap for the
journal's end, and one that was stopped in the middle of a write could create the entry anew. So two times keep them
apart.

- A process trusts its copy for `TRUSTED_SECONDS` from when it began to look whether the copy was the newest. After that
  it begins anew with the newest snapshot, and what it has just written it does not take for written.
- Entries are removed once a snapshot that has them is older than `REMOVED_SECONDS`, by the store's own times.

Whoever has trusted its copy since before that snapshot has stopped doing so; whoever began later began with it, or with
a newer one. Nothing is removed that a process could still look for.

A listing that lacks the snapshots would make a shortened journal look like an empty one. So the number of the first
entry that is kept is written before any is removed, and who begins compares what it has found with that number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from tfoperator.pipeline.objects import ABSENT, ObjectConflict, ObjectStore, ObjectStoreError, Stored

JOURNAL, SNAPSHOTS = "metadata/journal/", "metadata/snapshots/"
_ENTRY, _SNAPSHOT = re.compile(f"{JOURNAL}[0-9]{{12}}[.]json"), re.compile(f"{SNAPSHOTS}[0-9]{{12}}")
_FIRST = "metadata/floor"
"""The number of the first entry that is kept; it never gets lower."""

TRUSTED_SECONDS = 3600.0
REMOVED_SECONDS = 24 * 3600.0
"""So much more that neither the speed of a clock nor the servers of a store, which may disagree, make up for it."""
_REMOVED_AT_ONCE = 1000
"""Entries; each takes a request, for which a writer waits. More are made than that between two times by nobody."""
_KEPT_SNAPSHOTS = 2
"""The newest: who has listed them may be about to read the one before."""


def journal_key(number: int) -> str:
    """The key of an entry."""
    return f"{JOURNAL}{number:012d}.json"


def snapshot_key(number: int) -> str:
    """The key of a snapshot, which has all entries up to that number."""
    return f"{SNAPSHOTS}{number:012d}"


def snapshots(objects: ObjectStore) -> Iterator[str]:
    """The keys of the snapshots, sorted. Names that others have put there are none. Raises ObjectStoreError."""
    return filter(_SNAPSHOT.fullmatch, objects.keys(SNAPSHOTS))


def snapshot_number(key: str) -> int:
    """The number of a snapshot's last entry. Raises ValueError."""
    return int(key.removeprefix(SNAPSHOTS))


def first_number(objects: ObjectStore) -> int:
    """The number of the first entry that is not removed, nor about to be. Raises ObjectStoreError."""
    stored = objects.get(_FIRST)
    return 1 if stored is None else _number_in(objects, stored)


def _number_in(objects: ObjectStore, stored: Stored) -> int:
    if not stored.data.isdigit():
        raise ObjectStoreError(f"{objects}/{_FIRST} is not a number: it was not written by tfoperator")
    return int(stored.data)


def shorten(objects: ObjectStore) -> None:
    """Remove entries and snapshots that nobody needs; a part of them is left for the next time if there are many.

    Several processes may do so at once, and be killed. Raises ObjectStoreError.
    """
    there = list(snapshots(objects))
    old = next((key for key in reversed(there[:-1]) if _is_old(objects, key)), None)
    younger = [key for key in there if old is None or key > old]
    # The oldest of those that are too young is kept until it is old; entries are known to be old by nothing else.
    kept = {*younger[:1], *there[-_KEPT_SNAPSHOTS:]}
    if old is not None and _remove_entries(objects, journal_key(snapshot_number(old))):
        kept.add(old)
    for key in there:
        if key not in kept:
            objects.delete(key)


def _is_old(objects: ObjectStore, snapshot: str) -> bool:
    stored = objects.get(snapshot)
    return stored is not None and stored.age > REMOVED_SECONDS


def _remove_entries(objects: ObjectStore, last: str) -> bool:
    """Remove entries up to this one, the oldest first; whether there are more."""
    entries = filter(_ENTRY.fullmatch, objects.keys(JOURNAL))
    unneeded = list(islice(takewhile(lambda key: key <= last, entries), _REMOVED_AT_ONCE + 1))
    now = unneeded[:_REMOVED_AT_ONCE]
    if now and not _raise_first_number(objects, _entry_number(now[-1]) + 1):
        return True
    for key in now:
        objects.delete(key)
    return len(unneeded) > _REMOVED_AT_ONCE


def _raise_first_number(objects: ObjectStore, number: int) -> bool:
    """Whether it is at least that number now; not if another process has written it just now, which removes more."""
    stored = objects.get(_FIRST)
    if stored is not None and _number_in(objects, stored) >= number:
        return True
    try:
        objects.put(_FIRST, str(number).encode(), ABSENT if stored is None else stored.version)
    except ObjectConflict:
        return False
    return True


def _entry_number(key: str) -> int:
    return int(key.removeprefix(JOURNAL).removesuffix(".json"))
