"""Computes the phases of a job in the order of time, for example: starting, training, stalled, training. Pure.

`status.usage` contains only a sum for each phase: the seconds that the job has spent in this phase so far. From two
successive statuses, this module computes the phases between the two statuses. The operator writes the status at the end
of a long phase or soon after the end. So there is usually only one phase between two statuses, and the order of the
phases is known.
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
"""The server keeps at most this many spans (periods in a phase) of each job: the latest spans."""
_AGAIN = {UsagePhase.LOST, UsagePhase.STALLED, UsagePhase.SUSPENDED}
"""Phases after which a job trains or starts again. If such a phase ended before the first page was opened, only the
length of the phase is known. In this case, the start and the end of all phases before that time are estimates.
"""
_MAX_SECONDS = 2**53


class PhaseSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period in which the job was in a phase. Times are in seconds since 1970.

    If `end` is None, the period has not ended. `rough` is True if the start and the end of the period are estimates.
    The length of the period is right even then.
    """

    phase: UsagePhase
    start: float
    end: float | None = None
    rough: bool = False


class SeenPhases(msgspec.Struct, frozen=True):
    """The newest value of `status.usage`, and the spans that the page's server has observed.

    The spans end at `usage.since`, the start of the current phase. There are no gaps between the spans. The first span
    may begin later than the job, because the first page may have been opened later.
    """

    usage: JobUsage
    spans: tuple[PhaseSpan, ...] = ()


def follow(seen: SeenPhases | None, usage: JobUsage) -> SeenPhases:
    """Return the phases, updated with a new value of `status.usage`.

    The new sums can contradict the earlier sums. For example, the operator first counts the time of a running job as
    training. When the job sends its first progress report, the operator counts all this time as starting instead. In
    such a case, drop the spans, and keep only `usage`.
    """
    if seen is None or seen.usage.since is None or usage.since is None:
        return SeenPhases(usage)
    start, before = _time(seen.usage.since), _sums(seen.usage)
    passed = {phase: seconds - before[phase] for phase, seconds in _sums(usage).items()}
    if min(passed.values()) < 0 or sum(passed.values()) != _time(usage.since) - start:
        return SeenPhases(usage)
    return SeenPhases(usage, (*seen.spans, *_placed(passed, start, first=seen.usage.phase))[-MAX_SPANS:])


def job_time(usage: JobUsage, before: SeenPhases | None) -> dict[str, Any]:
    """Return the sums and the spans of a job's phases for the page. `before` contains the phases recorded so far."""
    spans = phase_spans(follow(before, usage))
    return {"usage": msgspec.structs.replace(usage, seconds=_sums(usage)), "spans": spans}


def phase_spans(seen: SeenPhases) -> list[PhaseSpan]:
    """Return spans for the whole time of the job, the oldest first.

    For the time before the first observed span, the spans are estimates from the sums. If the job has not ended, the
    last span is the current phase, without an end. Return [] if the start of the current phase (`usage.since`) is not
    known.
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
    # The sums are in whole seconds, so a phase of less than a second is missing. Join its two neighbours if they are
    # spans of the same phase.
    same = [list(group) for _, group in groupby(spans, lambda span: (span.phase, span.rough))]
    return [msgspec.structs.replace(group[0], end=group[-1].end) for group in same]


def _sums(usage: JobUsage) -> dict[UsagePhase, int]:
    sums = usage.until(utc(usage.since or datetime.min))
    return {phase: min(sums.get(phase, 0), _MAX_SECONDS) for phase in UsagePhase}


def _placed(spent: Mapping[UsagePhase, int], start: float, first: str = "", *, rough: bool = False) -> list[PhaseSpan]:
    """Return a span for each phase in `spent` that has any seconds. The first span begins at `start`.

    The spans follow each other without a gap. The phase `first`, in which the job was at `start`, is the first span.
    The other phases are in their usual order, which is the order of `UsagePhase`.
    """
    spans = []
    for phase in sorted(UsagePhase, key=lambda phase: phase != first):
        if seconds := spent[phase]:
            spans.append(PhaseSpan(phase, start, start + seconds, rough))
            start += seconds
    return spans


def _time(moment: datetime) -> float:
    return utc(moment).timestamp()
