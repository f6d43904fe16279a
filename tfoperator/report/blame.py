"""Finds the culprit: if several replicas failed, the culprit is the replica whose end made the others fail. Pure.

If a worker dies, the other replicas notice a broken connection and fail, mostly within the same second. So the culprit
is the failed replica that ended first. If several replicas ended within `_SAME_MOMENT`, clocks don't show which of them
was first. Of these, a replica whose error is not about a connection is the culprit.

There are two special cases. A replica that was killed may be restarted before the others fail. Such a replica is the
culprit, although it runs again. A replica may also raise the same exception as the culprit, and be stopped before its
program ends. Such a replica counts as failed, too.
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
"""If a replica fails in the same way this many times in a row, the failure counts as deterministic."""

_SAME_MOMENT = 2.0
"""If the ends of two replicas are less than this many seconds apart, their order is uncertain. Kubelets report times in
whole seconds, and the clocks of nodes differ.
"""

_CONSEQUENCE_PATTERN = re.compile(
    r"Connection (reset|refused|closed|aborted)|UnavailableError|AbortedError|CancelledError|ConnectionError|"
    r"ConnectionResetError|BrokenPipeError|Socket closed|UNAVAILABLE|failed to connect|peer|heartbeat|"
    r"Collective ops is aborted|another task died|Barrier (?:timed out|failed)|DEADLINE_EXCEEDED",
    re.IGNORECASE,
)
# The lines of two runs that fail in the same way can differ in numbers and memory addresses.
_VARIABLE_PARTS = re.compile(r"0x[0-9a-fA-F]+|\d+")

_TASK_PATTERN = re.compile(r"/job:(?P<type>[a-z_]+)(?:/replica:\d+)?/task:(?P<index>\d+)")
"""The name of a replica in errors: `/job:worker/replica:0/task:1`. In errors of JAX, the type is `jax_worker`, and the
index is the number of the process.
"""

_PROCESSES = tuple(kind.lower() for kind in PROCESS_TYPES)
"""The replica types that are processes of JAX, in lower case, in the order in which JAX numbers the processes."""


class FailedRun(msgspec.Struct, frozen=True):
    """The run in which a replica failed, with the traceback in its log.

    `lost_by` names the replicas that failed because they lost the connection to this replica while this replica was
    restarted.
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
        """The exception in the run's traceback, and the files and lines of its calls in the user's files.

        The tuple is empty if there is no traceback. Two runs that raised the same exception have equal tuples.
        """
        traceback = self.traceback
        if traceback is None:
            return ()
        where = tuple((frame.file, frame.line) for frame in traceback.user_frames or traceback.frames[-1:])
        return constant(traceback.exception), where

    @property
    def message(self) -> tuple[str, ...]:
        """The lines of the run's error: the exception, or the last lines of the log."""
        traceback = self.traceback
        return (traceback.exception, *traceback.more) if traceback is not None else self.run.tail[-LAST_LINES:]

    @property
    def peer(self) -> str:
        """The line of the error that names another replica. It is "" if there is no such line."""
        return next((line.strip() for line in self.message if _TASK_PATTERN.search(line)), "")

    @property
    def is_consequence(self) -> bool:
        """Whether the end of another replica may have caused this failure.

        It is True for exit code 143 (SIGTERM) and for errors about connections, such as `UNAVAILABLE`.
        """
        return self.run.exit_code == 143 or any(map(_CONSEQUENCE_PATTERN.search, self.message))


def failed_runs(replicas: Iterable[ReplicaFacts]) -> list[FailedRun]:
    """Return a run for each replica that failed, first the run of the culprit."""
    all_replicas = tuple(replicas)
    failed = _by_blame([failed for failed in map(_last_failure, all_replicas) if failed is not None])
    failed += _stopped_amid_the_same(failed, all_replicas)
    lost = _lost_peer(failed, all_replicas)
    return failed if lost is None else [lost, *failed]


def first_failure(replicas: Iterable[ReplicaFacts]) -> FailedRun | None:
    """Return the failed run of the culprit. Return None if no replica has failed."""
    return next(iter(failed_runs(replicas)), None)


def suspects(replicas: Iterable[ReplicaFacts]) -> list[str]:
    """Return the names of the replicas that may be the culprit. The facts need not contain logs.

    The function returns the failed replicas that ended within `_SAME_MOMENT` of the first end, and replicas that failed
    before and were restarted. To find the culprit, the caller needs to read only the logs of these replicas.
    """
    all_replicas = tuple(replicas)
    failed = failed_runs(all_replicas)
    first = _first_end(failed)
    names = [bad.replica.name for bad in failed if _at_once(bad, first)]
    lost = [replica.name for replica in all_replicas if failed and any(run.failed for run in replica.runs[:-1])]
    return [*names, *(name for name in lost if name not in names)]


def _last_failure(replica: ReplicaFacts) -> FailedRun | None:
    """Return the last failed run of a replica, or None if the replica has succeeded or recovered.

    A replica has recovered if it runs again, and has failed less than IDENTICAL times.
    """
    bad = [run for run in replica.runs if run.failed]
    last = replica.last_run
    if not bad or replica.state is FinalState.SUCCEEDED:
        return None
    loops = max(len(bad), replica.restarts - replica.disruptions) >= IDENTICAL
    if last is not None and not last.failed and replica.state is not FinalState.WAITING and not loops:
        return None  # The replica has recovered. The report lists its failure under the restarts.
    return FailedRun(replica, bad[-1], last_traceback(bad[-1].tail))


def _stopped_amid_the_same(failed: Sequence[FailedRun], replicas: Iterable[ReplicaFacts]) -> list[FailedRun]:
    """Return the last runs of replicas that raised the same exception as a failed replica and were then stopped.

    A returned run has the exit code and the reason of the failed replica's run, and does not count as stopped.
    """
    alike = {bad.raised: bad.run for bad in reversed(failed) if bad.traceback is not None}
    names = {bad.replica.name for bad in failed}
    stopped_runs = []
    for replica in replicas if alike else ():
        run = replica.last_run
        if replica.name in names or run is None or not run.stopped:
            continue
        bad = FailedRun(replica, run, last_traceback(run.tail))
        if first := alike.get(bad.raised):
            as_first = msgspec.structs.replace(run, exit_code=first.exit_code, reason=first.reason, stopped=False)
            stopped_runs.append(msgspec.structs.replace(bad, run=as_first))
    return stopped_runs


def _lost_peer(failed: Sequence[FailedRun], replicas: Iterable[ReplicaFacts]) -> FailedRun | None:
    """Return the failed run of a replica that was restarted, if it may have caused the failure of `failed[0]`.

    The error of `failed[0]` must be about a connection. The returned run must have ended after the previous run of the
    replica of `failed[0]`, and at most `_SAME_MOMENT` after `failed[0]`. It must have been killed (exit code 137), or
    its error must not be about a connection. If there are several such runs, prefer a replica that the error names, and
    then the run that ended last. `lost_by` of the result names the failed replicas whose error is about a connection.
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
    causes = [peer for peer in peers if peer[2].run.exit_code == 137 or not peer[2].is_consequence]
    if not causes:
        return None
    lost = max(causes, key=lambda peer: peer[:2])[2]
    return msgspec.structs.replace(lost, lost_by=tuple(bad.replica.name for bad in failed if bad.is_consequence))


def _named(lines: Iterable[str], replicas: Iterable[ReplicaFacts]) -> set[str]:
    """Return the names of the replicas to which the lines of an error refer.

    For example, `/job:worker/replica:0/task:1` refers to `worker-1`. In errors of JAX, `jax_worker` and the number of a
    process refer to a replica.
    """

    def place(name: str) -> tuple[int, int]:
        kind, _, index = name.rpartition("-")
        return _PROCESSES.index(kind), int(index)

    processes = sorted(
        (replica.name for replica in replicas if replica.name.rpartition("-")[0] in _PROCESSES), key=place
    )
    tasks = [task for line in lines for task in _TASK_PATTERN.finditer(line)]
    of_jax = {int(task["index"]) for task in tasks if task["type"] == "jax_worker"}
    return {f"{task['type']}-{task['index']}" for task in tasks} | {
        name for number, name in enumerate(processes) if number in of_jax
    }


def _by_blame(failed: Sequence[FailedRun]) -> list[FailedRun]:
    first = _first_end(failed)

    def key(bad: FailedRun) -> tuple[bool, bool, datetime, str]:
        at_once = _at_once(bad, first)
        end = bad.run.ended or datetime.max.replace(tzinfo=UTC)
        return not at_once, at_once and bad.is_consequence, end, bad.replica.name

    return sorted(failed, key=key)


def _first_end(failed: Iterable[FailedRun]) -> datetime | None:
    return min((bad.run.ended for bad in failed if bad.run.ended is not None), default=None)


def _at_once(bad: FailedRun, first: datetime | None) -> bool:
    """Return whether a run ended at most `_SAME_MOMENT` after `first`, or one of these two times is unknown."""
    ended = bad.run.ended
    return first is None or ended is None or (ended - first).total_seconds() <= _SAME_MOMENT


def constant(line: str) -> str:
    """Return a line with `#` in place of each number and memory address, to compare lines of different runs."""
    return _VARIABLE_PARTS.sub("#", line)
