"""Computes the phases of a job in their order, such as starting, training, stalled, training. Pure.

`status.usage` has only a sum for each phase: the seconds that the job has spent in this phase so far. From two
successive statuses, this module computes the phases between them. The order of these phases is known, because the
operator writes the status at the end of a long phase or soon after. So there are rarely several phases between two
statuses.
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
"""The server keeps at most this many spans of each job: the latest spans."""
_AGAIN = {UsagePhase.LOST, UsagePhase.STALLED, UsagePhase.SUSPENDED}
"""Phases after which a job trains or starts again. If such a phase was not observed, only its length is known. Then the
times of all phases before the first observation are estimates.
"""
_MAX_SECONDS = 2**53


class PhaseSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period in which the job was in a phase. Times are in seconds since 1970.

    Without `end`, the period has not ended. `rough` is True if the length of the period is right, but its start and end
    are only estimates.
    """

    phase: UsagePhase
    start: float
    end: float | None = None
    rough: bool = False


class SeenPhases(msgspec.Struct, frozen=True):
    """The newest value of `status.usage`, and the observed spans until its time, without a gap.

    The first span may begin later than the job, because the page was opened later.
    """

    usage: JobUsage
    spans: tuple[PhaseSpan, ...] = ()


def follow(seen: SeenPhases | None, usage: JobUsage) -> SeenPhases:
    """Return the phases, updated with a new value of `status.usage`.

    The new sums may contradict the earlier sums: when a job sends its first report, the operator changes the time until
    then from training to starting. In such a case, the spans are dropped, and only `usage` is kept.
    """
    if seen is None or seen.usage.since is None or usage.since is None:
        return SeenPhases(usage)
    start, before = _time(seen.usage.since), _sums(seen.usage)
    passed = {phase: seconds - before[phase] for phase, seconds in _sums(usage).items()}
    if min(passed.values()) < 0 or sum(passed.values()) != _time(usage.since) - start:
        return SeenPhases(usage)
    return SeenPhases(usage, (*seen.spans, *_placed(passed, start, first=seen.usage.phase))[-MAX_SPANS:])


def job_time(usage: JobUsage, before: SeenPhases | None) -> dict[str, Any]:
    """Return the sums and the spans of a job's phases as JSON for the page. `before` are the phases recorded so far."""
    spans = phase_spans(follow(before, usage))
    return {"usage": msgspec.structs.replace(usage, seconds=_sums(usage)), "spans": spans}


def phase_spans(seen: SeenPhases) -> list[PhaseSpan]:
    """Return spans for the whole time of the job, the oldest first.

    For the time before the first observed span, the spans are estimates from the sums. The last span is the current
    phase, without an end.
    """
    usage, spans = seen.usage, list(seen.spans)
    if usage.since is None:
        return []
    unobserved = _sums(usage)
    for span in spans:
        unobserved[span.phase] -= int((span.end or span.start) - span.start)
    begin = spans[0].start if spans else _time(usage.since)
    spans[:0] = _placed(unobserved, begin - sum(unobserved.values()), rough=any(unobserved[phase] for phase in _AGAIN))
    if usage.phase in set(UsagePhase):
        spans.append(PhaseSpan(UsagePhase(usage.phase), _time(usage.since)))
    # The sums are in whole seconds, so a shorter phase between two spans is missing. Join spans of the same phase.
    same = [list(group) for _, group in groupby(spans, lambda span: (span.phase, span.rough))]
    return [msgspec.structs.replace(group[0], end=group[-1].end) for group in same]


def _sums(usage: JobUsage) -> dict[UsagePhase, int]:
    sums = usage.until(utc(usage.since or datetime.min))
    return {phase: min(sums.get(phase, 0), _MAX_SECONDS) for phase in UsagePhase}


def _placed(spent: Mapping[UsagePhase, int], start: float, first: str = "", *, rough: bool = False) -> list[PhaseSpan]:
    """Return a span for each phase with its seconds in `spent`, one after the other from `start` on.

    The phase `first`, in which the job was at `start`, comes first. Then the usual order of phases (`UsagePhase`)
    follows.
    """
    spans = []
    for phase in sorted(UsagePhase, key=lambda phase: phase != first):
        if seconds := spent[phase]:
            spans.append(PhaseSpan(phase, start, start + seconds, rough))
            start += seconds
    return spans


def _time(moment: datetime) -> float:
    return utc(moment).timestamp()
