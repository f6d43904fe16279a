"""Finds the culprit. If several replicas failed, the culprit is the replica whose end made the others fail. Pure.

If a worker dies, the other replicas notice a broken connection and fail, mostly within the same second. So the culprit
is the first failed replica that ended. If replicas ended within `_SAME_MOMENT`, clocks don't show which of them ended
first. Among them, a replica without an error about a connection comes first.

A replica that was killed may be restarted before the others fail. Then it does not count as failed, but it is the
cause. A replica may also raise the same exception a moment later, and be stopped before it has ended. Then it counts as
failed, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from tfoperator.api.replicas.process_variables import PROCESS_TYPES
from tfoperator.report.facts import FinalState, ReplicaFacts, RunFacts
from tfoperator.report.traceback_text import Traceback, last_traceback

LAST_LINES = 20
"""The number of log lines that are shown if a failed replica has no traceback."""

IDENTICAL = 3
"""If a replica fails in the same way this many times in a row, it is not by chance."""

_SAME_MOMENT = 2.0
"""If two ends are less than this many seconds apart, their order is uncertain: kubelets report whole seconds, by their
own clocks.
"""

_CONSEQUENCE_PATTERN = re.compile(
    r"Connection (reset|refused|closed|aborted)|UnavailableError|AbortedError|CancelledError|ConnectionError|"
    r"ConnectionResetError|BrokenPipeError|Socket closed|UNAVAILABLE|failed to connect|peer|heartbeat|"
    r"Collective ops is aborted|another task died|Barrier (?:timed out|failed)|DEADLINE_EXCEEDED",
    re.IGNORECASE,
)
# Numbers and addresses differ between two runs that fail in the same way.
_VARIABLE_PARTS = re.compile(r"0x[0-9a-fA-F]+|\d+")

_TASK_PATTERN = re.compile(r"/job:(?P<type>[a-z_]+)(?:/replica:\d+)?/task:(?P<index>\d+)")
"""The name of a replica in TensorFlow's errors. Errors of JAX have `jax_worker` and the number of the process."""

_PROCESSES = tuple(kind.lower() for kind in PROCESS_TYPES)
"""The types of JAX's processes, as in the names of replicas."""


class FailedRun(msgspec.Struct, frozen=True):
    """The run in which a replica failed, with the data from the run's log.

    This replica may have been restarted, and other replicas may have failed because they lost it. `lost_by` names these
    replicas.
    """

    replica: ReplicaFacts
    run: RunFacts
    traceback: Traceback | None
    lost_by: tuple[str, ...] = ()

    @property
    def signature(self) -> tuple[object, ...]:
        """A value that is equal for two runs that failed in the same way."""
        run = self.run
        if self.traceback is not None:
            return run.exit_code, run.reason, *self.raised
        last = next((line for line in reversed(run.tail) if line.strip()), "")
        return run.exit_code, run.reason, constant(last)

    @property
    def raised(self) -> tuple[object, ...]:
        """The exception in the run's traceback, and the places in the user's files.

        It is empty if there is no traceback.
        """
        found = self.traceback
        if found is None:
            return ()
        where = tuple((frame.file, frame.line) for frame in found.user_frames or found.frames[-1:])
        return constant(found.exception), where

    @property
    def message(self) -> tuple[str, ...]:
        """The lines of the run's error: the exception, or the last lines of the log."""
        found = self.traceback
        return (found.exception, *found.more) if found is not None else self.run.tail[-LAST_LINES:]

    @property
    def peer(self) -> str:
        """The line of the error that names another replica. It is "" if there is no such line."""
        return next((line.strip() for line in self.message if _TASK_PATTERN.search(line)), "")

    @property
    def is_consequence(self) -> bool:
        """Whether the end of another replica may have caused this error."""
        return self.run.exit_code == 143 or any(map(_CONSEQUENCE_PATTERN.search, self.message))


def failed_runs(replicas: Iterable[ReplicaFacts]) -> list[FailedRun]:
    """Return the failed run of each failed replica. The run of the culprit comes first."""
    known = tuple(replicas)
    failed = _by_blame([failed for failed in map(_last_failure, known) if failed is not None])
    failed += _stopped_amid_the_same(failed, known)
    lost = _lost_peer(failed, known)
    return failed if lost is None else [lost, *failed]


def first_failure(replicas: Iterable[ReplicaFacts]) -> FailedRun | None:
    """Return the failed run of the culprit. Return None if no replica has failed."""
    return next(iter(failed_runs(replicas)), None)


def suspects(replicas: Iterable[ReplicaFacts]) -> list[str]:
    """Return the replicas whose logs are needed to find the culprit.

    These are the replicas that ended first, in order, and replicas that were lost before. To find the culprit, the logs
    of all other replicas need not be read.
    """
    known = tuple(replicas)
    failed = failed_runs(known)
    first = _first_end(failed)
    names = [one.replica.name for one in failed if _at_once(one, first)]
    lost = [one.name for one in known if failed and any(run.failed for run in one.runs[:-1])]
    return [*names, *(name for name in lost if name not in names)]


def _last_failure(replica: ReplicaFacts) -> FailedRun | None:
    """Return the last failure of a replica: its last run if it failed.

    While the replica waits for a restart, it is the run before.
    """
    bad = [run for run in replica.runs if run.failed]
    last = replica.last_run
    if not bad or replica.state is FinalState.SUCCEEDED:
        return None
    loops = max(len(bad), replica.restarts - replica.disruptions) >= IDENTICAL
    if last is not None and not last.failed and replica.state is not FinalState.WAITING and not loops:
        return None  # It has recovered: that is reported among the restarts.
    return FailedRun(replica, bad[-1], last_traceback(bad[-1].tail))


def _stopped_amid_the_same(failed: Sequence[FailedRun], replicas: Iterable[ReplicaFacts]) -> list[FailedRun]:
    """Return the last runs of replicas that raised the same exception as a failed replica and were then stopped."""
    alike = {bad.raised: bad.run for bad in reversed(failed) if bad.traceback is not None}
    names = {bad.replica.name for bad in failed}
    found = []
    for replica in replicas if alike else ():
        run = replica.last_run
        if replica.name in names or run is None or not run.stopped:
            continue
        bad = FailedRun(replica, run, last_traceback(run.tail))
        if first := alike.get(bad.raised):
            as_first = msgspec.structs.replace(run, exit_code=first.exit_code, reason=first.reason, stopped=False)
            found.append(msgspec.structs.replace(bad, run=as_first))
    return found


def _lost_peer(failed: Sequence[FailedRun], replicas: Iterable[ReplicaFacts]) -> FailedRun | None:
    """Return the failed run of a replica that was restarted, if the culprit's error reports the loss of this replica.

    If there are several, return the run of a replica that the error names, or else the last run that ended before the
    culprit.
    """
    if not failed or not failed[0].is_consequence or failed[0].run.ended is None:
        return None
    first, until = failed[0], failed[0].run.ended
    names = {bad.replica.name for bad in failed}
    since = max((run.ended for run in first.replica.runs if run.ended and run.ended < until), default=None)
    named = _named(first.message, replicas)
    peers = [
        (replica.name in named, run.ended, FailedRun(replica, run, last_traceback(run.tail)))
        for replica in replicas
        for run in replica.runs
        if replica.name not in names and run.failed and run.ended is not None
        if (run.ended - until).total_seconds() <= _SAME_MOMENT and (since is None or run.ended > since)
    ]
    causes = [one for one in peers if one[2].run.exit_code == 137 or not one[2].is_consequence]
    if not causes:
        return None
    lost = max(causes, key=lambda one: one[:2])[2]
    return msgspec.structs.replace(lost, lost_by=tuple(bad.replica.name for bad in failed if bad.is_consequence))


def _named(lines: Iterable[str], replicas: Iterable[ReplicaFacts]) -> set[str]:
    """Return the replicas that an error names."""

    def place(name: str) -> tuple[int, int]:
        kind, _, index = name.rpartition("-")
        return _PROCESSES.index(kind), int(index)

    processes = sorted((one.name for one in replicas if one.name.rpartition("-")[0] in _PROCESSES), key=place)
    tasks = [task for line in lines for task in _TASK_PATTERN.finditer(line)]
    of_jax = {int(task["index"]) for task in tasks if task["type"] == "jax_worker"}
    return {f"{task['type']}-{task['index']}" for task in tasks} | {
        name for number, name in enumerate(processes) if number in of_jax
    }


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
    """Return whether a run ended within `_SAME_MOMENT` of the first end.

    A run without a recorded end counts as such a run.
    """
    ended = one.run.ended
    return first is None or ended is None or (ended - first).total_seconds() <= _SAME_MOMENT


def constant(line: str) -> str:
    """Return a line without its numbers and addresses. The result is equal for two runs that fail in the same way."""
    return _VARIABLE_PARTS.sub("#", line)
