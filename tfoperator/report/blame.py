"""Who began it: of all replicas that failed, the one whose end took the others along. Pure.

A worker that dies takes the others along: they notice a broken connection, mostly within the same second, and fail,
too. So of all replicas that failed the first to end is the culprit; among those that ended within `_SAME_MOMENT`, whose
order no clock tells for certain, one that doesn't complain of a connection goes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from tfoperator.report.facts import FinalState, ReplicaFacts, RunFacts
from tfoperator.report.traceback_text import Traceback, last_traceback

LAST_LINES = 20
"""How many of the last log lines of a failed replica are told where there is no traceback."""

IDENTICAL = 3
"""So many failures alike, one after the other, are no accident."""

_SAME_MOMENT = 2.0
"""Seconds within which the order of two ends says little: kubelets tell whole seconds, by clocks of their own."""

_CONSEQUENCE = re.compile(
    r"Connection (reset|refused|closed|aborted)|UnavailableError|AbortedError|CancelledError|ConnectionError|"
    r"ConnectionResetError|BrokenPipeError|Socket closed|UNAVAILABLE|failed to connect|peer|heartbeat|"
    r"Collective ops is aborted",
    re.IGNORECASE,
)
# Numbers and addresses differ between two runs that fail in the same way.
_VARIABLE_PARTS = re.compile(r"0x[0-9a-fA-F]+|\d+")


class FailedRun(msgspec.Struct, frozen=True):
    """The run by which a replica failed, with what is read in its log."""

    replica: ReplicaFacts
    run: RunFacts
    traceback: Traceback | None

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for two runs that failed in the same way."""
        run, found = self.run, self.traceback
        if found is not None:
            where = tuple((frame.file, frame.line) for frame in found.user_frames or found.frames[-1:])
            return run.exit_code, run.reason, constant(found.exception), where
        last = next((line for line in reversed(run.tail) if line.strip()), "")
        return run.exit_code, run.reason, constant(last)

    @property
    def is_consequence(self) -> bool:
        """Whether it complains of what another one's end would do to it."""
        found = self.traceback
        words = [found.exception, *found.more] if found is not None else self.run.tail[-LAST_LINES:]
        return self.run.exit_code == 143 or any(_CONSEQUENCE.search(line) for line in words)


def failed_runs(replicas: Iterable[ReplicaFacts]) -> list[FailedRun]:
    """How each replica failed that did, the culprit's first."""
    return _by_blame([failed for failed in map(_last_failure, replicas) if failed is not None])


def first_failure(replicas: Iterable[ReplicaFacts]) -> FailedRun | None:
    """How the replica failed whose end began it; None if none has failed."""
    return next(iter(failed_runs(replicas)), None)


def suspects(replicas: Iterable[ReplicaFacts]) -> list[str]:
    """The replicas that ended so close to the first that only their logs tell who began it, by the order of their ends.

    So the logs of the others need not be read to know it.
    """
    failed = failed_runs(replicas)
    first = _first_end(failed)
    return [one.replica.name for one in failed if _at_once(one, first)]


def _last_failure(replica: ReplicaFacts) -> FailedRun | None:
    """How the replica last failed: its last run if that has failed, or the one before while it waits for another."""
    bad = [run for run in replica.runs if run.failed]
    last = replica.last_run
    if not bad or replica.state is FinalState.SUCCEEDED:
        return None
    loops = max(len(bad), replica.restarts) >= IDENTICAL
    if last is not None and not last.failed and replica.state is not FinalState.WAITING and not loops:
        return None  # It has got over it: that is told among the restarts.
    return FailedRun(replica, bad[-1], last_traceback(bad[-1].tail))


def _by_blame(failed: Sequence[FailedRun]) -> list[FailedRun]:
    first = _first_end(failed)

    def key(one: FailedRun) -> tuple[bool, bool, datetime, str]:
        at_once = _at_once(one, first)
        end = one.run.ended or datetime.max.replace(tzinfo=UTC)
        return not at_once, at_once and one.is_consequence, end, one.replica.name

    return sorted(failed, key=key)


def _first_end(failed: Iterable[FailedRun]) -> datetime | None:
    return min((one.run.ended for one in failed if one.run.ended is not None), default=None)


def _at_once(one: FailedRun, first: datetime | None) -> bool:
    """Whether it ended within the moment of the first end; one whose end has no time may have."""
    ended = one.run.ended
    return first is None or ended is None or (ended - first).total_seconds() <= _SAME_MOMENT


def constant(line: str) -> str:
    """What is the same of a line in two runs that fail in the same way: all but numbers and addresses."""
    return _VARIABLE_PARTS.sub("#", line)
