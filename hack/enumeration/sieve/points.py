"""All places of a scenario at which something can go wrong, from what was recorded of it without a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from hack.enumeration.world.fault import EVERY_KIND, Fault, How
from hack.enumeration.world.world import Played

GROUPS = (
    How.CRASH_BEFORE,
    How.CRASH_AFTER,
    How.LATE_WRITE,
    How.LOST_EVENT,
    How.LATE_EVENT,
    How.DELETED_JOB,
    How.CHANGED_SCOPE,
    How.OLD_LIST,
)
"""The columns of the table, in order."""

_OF_DELETIONS = ("TFJob", "Pod", "Workload", "PodGroup")
"""The kinds whose events of a deleted job come in every order."""

_MOST_SHOWN = 4
"""Late events wait until at most this many other events were delivered."""

_ALL_SHOWN = 1000
"""With this number, late events wait until their time is over, because there are never so many other events."""


def points(recorded: Played, *, deletions: bool = False, queues: bool = False) -> list[Fault]:
    """Every fault that this scenario can have, each once; with `deletions`, the job is deleted at every point, too.

    In `queues`, fields that decide which replicas run again, and that no Workload has, are changed at every point.
    """
    faults = list(_crashes(len(recorded.writes)))
    for kind, revision in dict.fromkeys(recorded.events):
        faults += [Fault(how, kind=kind, revision=revision) for how in (How.LOST_EVENT, How.LATE_EVENT)]
    if deletions:
        faults += _deletions(recorded)
    if queues:
        faults += [Fault(How.CHANGED_SCOPE, at) for at in range(1, len(recorded.writes) + 1)]
    return [*faults, *_old_lists(recorded)]


def _crashes(writes: int) -> Iterator[Fault]:
    for at in range(1, writes + 1):
        for how in (How.CRASH_BEFORE, How.CRASH_AFTER):
            yield Fault(how, at)
            yield Fault(how, at, misses_a_step=True)
        yield Fault(How.LATE_WRITE, at)


def _deletions(recorded: Played) -> Iterator[Fault]:
    """After each change of the job, or of what it has, the job is deleted, and some of its kinds are late.

    Between each two kinds the events of either kind come first, and the events of the job's deletion come at each place
    among the others. The operator is killed at the first of them; the job is made again at once.
    """
    kinds = [kind for kind in _OF_DELETIONS if any(kind == changed_kind for changed_kind, _ in recorded.events)]
    parts = ["+".join(combination) for size in range(1, len(kinds)) for combination in combinations(kinds, size)]
    for revision in sorted({revision for kind, revision in recorded.events if kind in kinds}):
        for policy in ("", "Foreground", "Orphan"):
            yield Fault(How.DELETED_JOB, revision=revision, policy=policy)
        for kind in parts:
            is_alone = kind.count("+") == len(kinds) - 2  # whose events are not late
            for at in (*range(1, 2 if is_alone else _MOST_SHOWN + 1), _ALL_SHOWN):
                yield Fault(How.DELETED_JOB, at, kind, revision)
        for at in range(1, _MOST_SHOWN + 1):
            yield Fault(How.DELETED_JOB, at, EVERY_KIND, revision)
        for kind in ("", *kinds):
            yield Fault(How.DELETED_JOB, _ALL_SHOWN if kind else 0, kind, revision, again=True)


def _old_lists(recorded: Played) -> Iterator[Fault]:
    """After each write start a new process, whose lists come from every older state: all lists, or lists of one kind.

    Two revisions between which nothing of a kind has changed are the same state of it, and tried once. The last
    revision before the write's own is the first old revision.
    """
    changes = sorted(dict.fromkeys((revision, kind) for kind, revision in recorded.events))
    for at, reached in enumerate(recorded.writes, 1):
        earlier = [(revision, kind) for revision, kind in changes if revision <= reached]
        for revision in sorted({revision - 1 for revision, _ in earlier}):
            yield Fault(How.OLD_LIST, at, EVERY_KIND, revision)
        for revision, kind in earlier:
            yield Fault(How.OLD_LIST, at, kind, revision - 1)


def thinned(every: Sequence[Fault], share_of: Callable[[How], int]) -> list[Fault]:
    """Return an even part of the points of each group, for a quick run. The first point of each group is kept."""
    kept: list[Fault] = []
    for how in GROUPS:
        group = [fault for fault in every if fault.how is how]
        kept += group[:: share_of(how)]
    return kept
