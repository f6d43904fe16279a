"""What a job's time went to, one phase after the other: from its sums, as they were seen to grow. Pure.

A status has sums alone. Two of them, one after the other, tell what the time between them went to, and in which order:
a phase that lasts ends with a write of the status, or soon after.
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
"""Spans per job: the latest."""
_AGAIN = {UsagePhase.LOST, UsagePhase.STALLED, UsagePhase.SUSPENDED}
"""Phases between which a job trains or starts again: sums don't tell when."""
_MAX_SECONDS = 2**53


class PhaseSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period, in seconds since 1970; without `end` it goes on. `rough`: its length is known, its place is not."""

    phase: UsagePhase
    start: float
    end: float | None = None
    rough: bool = False


class SeenPhases(msgspec.Struct, frozen=True):
    """The newest sums, and the spans without a gap up to them. They may begin later than the job."""

    usage: JobUsage
    spans: tuple[PhaseSpan, ...] = ()


def follow(seen: SeenPhases | None, usage: JobUsage) -> SeenPhases:
    """Return what is known once these sums were seen, too.

    Where they contradict those before (a job that reports for the first time was starting for longer), the spans are
    forgotten: what remains are the sums.
    """
    if seen is None or seen.usage.since is None or usage.since is None:
        return SeenPhases(usage)
    start, before = _time(seen.usage.since), _sums(seen.usage)
    passed = {phase: seconds - before[phase] for phase, seconds in _sums(usage).items()}
    if min(passed.values()) < 0 or sum(passed.values()) != _time(usage.since) - start:
        return SeenPhases(usage)
    return SeenPhases(usage, (*seen.spans, *_placed(passed, start, first=seen.usage.phase))[-MAX_SPANS:])


def job_time(usage: JobUsage, before: SeenPhases | None) -> dict[str, Any]:
    """Return a usage and its spans as the page gets them; `before`: what was seen up to now."""
    spans = phase_spans(follow(before, usage))
    return {"usage": msgspec.structs.replace(usage, seconds=_sums(usage)), "spans": spans}


def phase_spans(seen: SeenPhases) -> list[PhaseSpan]:
    """Return all of the job's time, the oldest first: what was not seen, what was, and the present phase."""
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
    # A restart that took less than a second lost none: one span goes on.
    same = [list(group) for _, group in groupby(spans, lambda span: (span.phase, span.rough))]
    return [msgspec.structs.replace(group[0], end=group[-1].end) for group in same]


def _sums(usage: JobUsage) -> dict[UsagePhase, int]:
    sums = usage.until(utc(usage.since or datetime.min))
    return {phase: min(sums.get(phase, 0), _MAX_SECONDS) for phase in UsagePhase}


def _placed(spent: Mapping[UsagePhase, int], start: float, first: str = "", *, rough: bool = False) -> list[PhaseSpan]:
    """Return spans in the order in which a job is in phases; `first`: it was in that one."""
    found = []
    for phase in sorted(UsagePhase, key=lambda phase: phase != first):
        if seconds := spent[phase]:
            found.append(PhaseSpan(phase, start, start + seconds, rough))
            start += seconds
    return found


def _time(moment: datetime) -> float:
    return utc(moment).timestamp()
