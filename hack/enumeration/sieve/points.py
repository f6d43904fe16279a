"""All places of a scenario at which something can go wrong, from what was recorded of it without a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hack.enumeration.world.fault import EVERY_KIND, Fault, How
from hack.enumeration.world.world import Played

GROUPS = (How.CRASH_BEFORE, How.CRASH_AFTER, How.LATE_WRITE, How.LOST_EVENT, How.LATE_EVENT, How.OLD_LIST)
"""The columns of the table, in order."""


def points(recorded: Played) -> list[Fault]:
    """Every fault that this scenario can have, each once."""
    found = list(_crashes(len(recorded.writes)))
    for kind, revision in dict.fromkeys(recorded.events):
        found += [Fault(how, kind=kind, revision=revision) for how in (How.LOST_EVENT, How.LATE_EVENT)]
    return [*found, *_old_lists(recorded)]


def _crashes(writes: int) -> Iterator[Fault]:
    for at in range(1, writes + 1):
        for how in (How.CRASH_BEFORE, How.CRASH_AFTER):
            yield Fault(how, at)
            yield Fault(how, at, misses_a_step=True)
        yield Fault(How.LATE_WRITE, at)


def _old_lists(recorded: Played) -> Iterator[Fault]:
    """After each write a new process, whose lists come from every older state: all of them, or those of one kind.

    Two revisions between which nothing of a kind has changed are the same state of it, and tried once. The last one
    before the write's own is the first that is old.
    """
    changes = sorted(dict.fromkeys((revision, kind) for kind, revision in recorded.events))
    for at, reached in enumerate(recorded.writes, 1):
        seen = [(revision, kind) for revision, kind in changes if revision <= reached]
        for revision in sorted({revision - 1 for revision, _ in seen}):
            yield Fault(How.OLD_LIST, at, EVERY_KIND, revision)
        for revision, kind in seen:
            yield Fault(How.OLD_LIST, at, kind, revision - 1)


def thinned(every: Sequence[Fault], share: int) -> list[Fault]:
    """One of `share` points of each group, evenly: for a quick run. Each group keeps its first."""
    kept: list[Fault] = []
    for how in GROUPS:
        group = [fault for fault in every if fault.how is how]
        kept += group[::share]
    return kept
