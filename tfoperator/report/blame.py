"""Finds the culprit: of all replicas that failed, the one whose end made the others fail. Pure.

A worker that dies makes the others fail: they notice a broken connection, mostly within the same second. So of all
replicas that failed the first to end is the culprit; among those that ended within `_SAME_MOMENT`, whose order no clock
shows for certain, one that doesn't complain of a connection goes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from tfoperator.report.facts import FinalState, ReplicaFacts, RunFacts
from tfoperator.report.traceback_text import Traceback, last_traceback

LAST_LINES = 20
"""The number of log lines shown of a failed replica without a traceback."""

IDENTICAL = 3
"""The number of identical failures in a row that is no accident."""

_SAME_MOMENT = 2.0
"""Seconds within which the order of two ends is uncertain: kubelets report whole seconds, by their own clocks."""

_CONSEQUENCE_PATTERN = re.compile(
    r"Connection (reset|refused|closed|aborted)|UnavailableError|AbortedError|CancelledError|ConnectionError|"
    r"ConnectionResetError|BrokenPipeError|Socket closed|UNAVAILABLE|failed to connect|peer|heartbeat|"
    r"Collective ops is aborted",
    re.IGNORECASE,
)
# Numbers and addresses differ between two runs that fail in the same way.
_VARIABLE_PARTS = re.compile(r"0x[0-9a-fA-F]+|\d+")


class FailedRun(msgspec.Struct, frozen=True):
    """The run by which a replica failed, with the data from its log."""

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
        """Whether its error may be the consequence of another replica's end."""
        found = self.traceback
        words = [found.exception, *found.more] if found is not None else self.run.tail[-LAST_LINES:]
        return self.run.exit_code == 143 or any(_CONSEQUENCE_PATTERN.search(line) for line in words)


def failed_runs(replicas: Iterable[ReplicaFacts]) -> list[FailedRun]:
    """Return the failed run of each failed replica, the culprit's first."""
    return _by_blame([failed for failed in map(_last_failure, replicas) if failed is not None])


def first_failure(replicas: Iterable[ReplicaFacts]) -> FailedRun | None:
    """Return the failed run of the culprit; None if no replica has failed."""
    return next(iter(failed_runs(replicas)), None)


def suspects(replicas: Iterable[ReplicaFacts]) -> list[str]:
    """Return the replicas that ended so close to the first that only logs show the culprit, in order of their ends.

    The logs of the others need not be read for that.
    """
    failed = failed_runs(replicas)
    first = _first_end(failed)
    return [one.replica.name for one in failed if _at_once(one, first)]


def _last_failure(replica: ReplicaFacts) -> FailedRun | None:
    """Return the replica's last failure: its last run if failed, or the one before while it waits to restart."""
    bad = [run for run in replica.runs if run.failed]
    last = replica.last_run
    if not bad or replica.state is FinalState.SUCCEEDED:
        return None
    loops = max(len(bad), replica.restarts - replica.disruptions) >= IDENTICAL
    if last is not None and not last.failed and replica.state is not FinalState.WAITING and not loops:
        return None  # It has recovered: that is reported among the restarts.
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
    """Return whether it ended within the moment of the first end; a run without an end time may have."""
    ended = one.run.ended
    return first is None or ended is None or (ended - first).total_seconds() <= _SAME_MOMENT


def constant(line: str) -> str:
    """Return the part of a line that two runs failing alike share: all but numbers and addresses."""
    return _VARIABLE_PARTS.sub("#", line)
