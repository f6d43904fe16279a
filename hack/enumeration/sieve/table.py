"""The table of all points and of the points that were tried, in Markdown, with the violations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hack.enumeration.markdown import markdown_table
from hack.enumeration.sieve.points import GROUPS
from hack.enumeration.sieve.runner import Results, There, Tried
from hack.enumeration.world.fault import NO_FAULT, How

_TITLES = {
    How.CRASH_BEFORE: "crash before",
    How.CRASH_AFTER: "crash after",
    How.LATE_WRITE: "late write",
    How.LOST_EVENT: "lost event",
    How.LATE_EVENT: "late event",
    How.DELETED_JOB: "deleted job",
    How.CHANGED_SCOPE: "changed scope",
    How.OLD_LIST: "old list",
}


def table(found: Sequence[There], results: Results) -> str:
    """One row for each scenario: points tried of points there, what was violated, and the seconds of one core."""
    titles = ["scenario", "writes", "events", *(_TITLES[how] for how in GROUPS), "tried", "violated", "seconds"]
    rows = []
    total = [0] * len(GROUPS)
    all_points = [0] * len(GROUPS)
    seconds, violated = 0.0, 0
    for recorded in found:
        tried = _tried(recorded, results)
        counts = [sum(fault.how is how for fault in (t.fault for t in tried)) for how in GROUPS]
        points = [sum(fault.how is how for fault in recorded.points) for how in GROUPS]
        bad, spent = sum(map(is_bad, tried)), sum(t.seconds for t in tried)
        rows.append(_row(recorded.scenario, recorded.writes, recorded.events, counts, points, bad, spent))
        total = [a + b for a, b in zip(total, counts, strict=True)]
        all_points = [a + b for a, b in zip(all_points, points, strict=True)]
        seconds, violated = seconds + spent, violated + bad
    writes, events = sum(recorded.writes for recorded in found), sum(recorded.events for recorded in found)
    rows.append(_row("together", writes, events, total, all_points, violated, seconds))
    return markdown_table(titles, rows)


def is_bad(tried: Tried) -> bool:
    """Whether something is wrong with a point: the oracle found something, or it was not reached."""
    return bool(tried.violations) or not tried.reached


def bad_points(found: Iterable[There], results: Results) -> list[Tried]:
    """Every point with which something is wrong."""
    return [tried for recorded in found for tried in _tried(recorded, results) if is_bad(tried)]


def _tried(recorded: There, results: Results) -> list[Tried]:
    wanted = ((recorded.scenario, fault) for fault in (NO_FAULT, *recorded.chosen))
    return [results.tried[key] for key in wanted if key in results.tried]


def _row(
    name: str, writes: int, events: int, counts: Sequence[int], points: Sequence[int], bad: int, seconds: float
) -> list[str]:
    cells = [str(b) if a == b else f"{a} of {b}" for a, b in zip(counts, points, strict=True)]
    share = f"{sum(counts)} of {sum(points)}"
    return [name, str(writes), str(events), *cells, share, str(bad), f"{seconds:.0f}"]
