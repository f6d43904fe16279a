"""The objects of a journal and its snapshots, and the removal of those not needed any more.

An entry can't be removed as soon as a snapshot includes it: a process with an older copy would take the gap for the
journal's end, and one suspended in the middle of a write could create the entry again. So two times separate
them.

- A process trusts its copy for `TRUSTED_SECONDS` from the start of its last check that it was the newest. After that
  it starts over with the newest snapshot, and does not count its last write as written.
- Entries are removed once a snapshot that has them is older than `REMOVED_SECONDS`, by the store's own times.

A process that trusted its copy before that snapshot has stopped doing so; one that began later began with it, or with
a newer one. No entry is removed that a process could still read.

A listing that lacks the snapshots would make a shortened journal look like an empty one. So the number of the first
entry that is kept is written before any is removed, and a starting process compares its first entry with that number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from tfoperator.pipeline.objects import ABSENT, ObjectConflict, ObjectStore, ObjectStoreError, Stored

JOURNAL, SNAPSHOTS = "metadata/journal/", "metadata/snapshots/"
_ENTRY, _SNAPSHOT = re.compile(f"{JOURNAL}[0-9]{{12}}[.]json"), re.compile(f"{SNAPSHOTS}[0-9]{{12}}")
_FIRST_KEY = "metadata/floor"
"""The number of the first entry that is kept; it never decreases."""

TRUSTED_SECONDS = 3600.0
REMOVED_SECONDS = 24 * 3600.0
"""The difference exceeds the effects of clock speeds and of differing clocks of a store's servers."""
_MAX_REMOVALS = 1000
"""Entries per removal; each takes a request, for which a writer waits. More than are written between two removals."""
_KEPT_SNAPSHOTS = 2
"""The newest: a process that has listed them may be about to read the one before."""


def journal_key(number: int) -> str:
    """Return the key of an entry."""
    return f"{JOURNAL}{number:012d}.json"


def snapshot_key(number: int) -> str:
    """Return the key of a snapshot, which includes all entries up to that number."""
    return f"{SNAPSHOTS}{number:012d}"


def snapshots(objects: ObjectStore) -> Iterator[str]:
    """Yield the keys of the snapshots, sorted, without foreign names. Raises ObjectStoreError."""
    return filter(_SNAPSHOT.fullmatch, objects.keys(SNAPSHOTS))


def snapshot_number(key: str) -> int:
    """Return the number of a snapshot's last entry. Raises ValueError."""
    return int(key.removeprefix(SNAPSHOTS))


def first_number(objects: ObjectStore) -> int:
    """Return the number of the first entry that is not removed, nor about to be. Raises ObjectStoreError."""
    stored = objects.get(_FIRST_KEY)
    return 1 if stored is None else _number_in(objects, stored)


def _number_in(objects: ObjectStore, stored: Stored) -> int:
    if not stored.data.isdigit():
        raise ObjectStoreError(f"{objects}/{_FIRST_KEY} is not a number: it was not written by tfoperator")
    return int(stored.data)


def shorten(objects: ObjectStore) -> None:
    """Remove unneeded entries and snapshots; some of them are left for the next call if there are many.

    Several processes may do so at once, and be killed. Raises ObjectStoreError.
    """
    there = list(snapshots(objects))
    old = next((key for key in reversed(there[:-1]) if _is_old(objects, key)), None)
    younger = [key for key in there if old is None or key > old]
    # The oldest of the too young ones is kept until it is old: only that shows the age of entries.
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
    """Remove entries up to this one, the oldest first; return whether there are more."""
    entries = filter(_ENTRY.fullmatch, objects.keys(JOURNAL))
    unneeded = list(islice(takewhile(lambda key: key <= last, entries), _MAX_REMOVALS + 1))
    now = unneeded[:_MAX_REMOVALS]
    if now and not _raise_first_number(objects, _entry_number(now[-1]) + 1):
        return True
    for key in now:
        objects.delete(key)
    return len(unneeded) > _MAX_REMOVALS


def _raise_first_number(objects: ObjectStore, number: int) -> bool:
    """Return whether it is at least that number now; not if another process has just written it, which removes more."""
    stored = objects.get(_FIRST_KEY)
    if stored is not None and _number_in(objects, stored) >= number:
        return True
    try:
        objects.put(_FIRST_KEY, str(number).encode(), ABSENT if stored is None else stored.version)
    except ObjectConflict:
        return False
    return True


def _entry_number(key: str) -> int:
    return int(key.removeprefix(JOURNAL).removesuffix(".json"))
