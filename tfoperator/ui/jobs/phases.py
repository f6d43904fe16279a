"""The phases of a job's time in their order.

They are computed from the sums in the job's status, which grow with time. Pure. A status has only the sum of the time
of each phase. From two successive statuses, this module computes the phases of the time between them, and the order of
these phases. This is possible because the end of a long phase causes a write of the status, at once or soon after.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec

from tfoperator.api.v1.status import JobUsage, UsagePhase
from tfoperator.base.clock import utc

MAX_SPANS = 100
"""The maximum number of spans of a job. The latest spans are kept."""
_AGAIN = {UsagePhase.LOST, UsagePhase.STALLED, UsagePhase.SUSPENDED}
"""After one of these phases, a job trains or starts again, and the sums don't show when this happened."""
_MAX_SECONDS = 2**53


class PhaseSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period, in seconds since 1970.

    Without `end`, the period has not ended. `rough` is true if the length of the period is known, but not its exact
    place in time.
    """

    phase: UsagePhase
    start: float
    end: float | None = None
    rough: bool = False


class SeenPhases(msgspec.Struct, frozen=True):
    """The newest sums, and the spans that lead up to them without a gap.

    The first span may begin later than the job.
    """

    usage: JobUsage
    spans: tuple[PhaseSpan, ...] = ()


def follow(seen: SeenPhases | None, usage: JobUsage) -> SeenPhases:
    """Return the phases, updated with these new sums.

    New sums may contradict the earlier sums. For example, when a job reports for the first time, the status then shows
    that the job was starting for a longer time. In this case, the spans are dropped, and only the sums are kept.
    """
    if seen is None or seen.usage.since is None or usage.since is None:
        return SeenPhases(usage)
    start, before = _time(seen.usage.since), _sums(seen.usage)
    passed = {phase: seconds - before[phase] for phase, seconds in _sums(usage).items()}
    if min(passed.values()) < 0 or sum(passed.values()) != _time(usage.since) - start:
        return SeenPhases(usage)
    return SeenPhases(usage, (*seen.spans, *_placed(passed, start, first=seen.usage.phase))[-MAX_SPANS:])


def job_time(usage: JobUsage, before: SeenPhases | None) -> dict[str, Any]:
    """Return a usage and its spans in the form that the page gets. `before` are the phases that were known so far."""
    spans = phase_spans(follow(before, usage))
    return {"usage": msgspec.structs.replace(usage, seconds=_sums(usage)), "spans": spans}


def phase_spans(seen: SeenPhases) -> list[PhaseSpan]:
    """Return spans for all of the job's time, the oldest first.

    They cover the time that was not observed, the known spans, and the current phase.
    """
    usage, spans = seen.usage, list(seen.spans)
    if usage.since is None:
        return []
    rest = _sums(usage)
    for span in spans:
        rest[span.phase] -= int((span.end or span.start) - span.start)
    begin = spans[0].start if spans else _time(usage.since)
    spans[:0] = _placed(rest, begin - sum(rest.values()), rough=any(rest[phase] for phase in _AGAIN))
    if usage.phase in set(UsagePhase):
        spans.append(PhaseSpan(UsagePhase(usage.phase), _time(usage.since)))
    # A restart of less than a second is not in the sums. So neighbouring spans of the same phase are one span.
    same = [list(group) for _, group in groupby(spans, lambda span: (span.phase, span.rough))]
    return [msgspec.structs.replace(group[0], end=group[-1].end) for group in same]


def _sums(usage: JobUsage) -> dict[UsagePhase, int]:
    sums = usage.until(utc(usage.since or datetime.min))
    return {phase: min(sums.get(phase, 0), _MAX_SECONDS) for phase in UsagePhase}


def _placed(spent: Mapping[UsagePhase, int], start: float, first: str = "", *, rough: bool = False) -> list[PhaseSpan]:
    """Return spans in the usual order of a job's phases. The phase `first`, in which the job was, comes first."""
    found = []
    for phase in sorted(UsagePhase, key=lambda phase: phase != first):
        if seconds := spent[phase]:
            found.append(PhaseSpan(phase, start, start + seconds, rough))
            start += seconds
    return found


def _time(moment: datetime) -> float:
    return utc(moment).timestamp()
