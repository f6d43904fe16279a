"""Decides the contents of a report. Pure.

The contents are: the failures (the culprit's failure first), the other replicas, the restarts, and the advice.

The culprit is the replica whose failure caused the other failures (`blame`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from tfoperator.api.replicas.replica_pods import signal_of
from tfoperator.report.advice import advice_for
from tfoperator.report.blame import IDENTICAL, LAST_LINES, FailedRun, constant, failed_runs
from tfoperator.report.facts import KILLED, FinalState, JobFacts, ReplicaFacts, RunFacts, ended_runs
from tfoperator.report.log_lines import is_of_program
from tfoperator.report.quoted import quotable
from tfoperator.report.traceback_text import Traceback, last_traceback, line_before_traceback

_MAX_RESTARTS_TOLD = 20

OUTLASTED = "it did not end within its grace period, and was killed"
"""The detail of a replica that did not end within its grace period."""


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """The failure of a replica.

    - `meaning` is the meaning of the exit code, such as ` (killed)`.
    - `last_lines` are the last lines of the replica's log, if there is no `traceback`.
    - `same` are the other replicas that failed in the same way.
    - `times` is the number of such failures of this replica in a row, including this failure.
    - `peak_memory` and `memory_limit` are in bytes.
    - `kernel` is the kernel's message about the kill of the process.
    - `lost_by` names the replicas that failed because they lost the connection to this replica while this replica was
      restarted.
    - `place` is a log line before the traceback. This line names the port to which the exception refers.
    """

    replica: str
    exit_code: int | None
    reason: str
    meaning: str
    restarts: int
    ended: datetime | None
    log: str
    traceback: Traceback | None = None
    last_lines: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    times: int = 1
    peak_memory: int | None = None
    memory_limit: int | None = None
    kernel: str = ""
    lost_by: tuple[str, ...] = ()
    place: str = ""


class Others(msgspec.Struct, frozen=True, rename="camel"):
    """Replicas that did not fail, and have the same state and the same last line, apart from numbers.

    `last_line` and `log` belong to the first of them.
    """

    replicas: tuple[str, ...]
    state: FinalState
    detail: str = ""
    last_line: str = ""
    log: str = ""


class Restart(msgspec.Struct, frozen=True, rename="camel"):
    """The end of a run of a replica, if a new run of the replica followed. `cause` is the reason of the restart."""

    replica: str
    cause: str
    when: datetime | None = None


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The reasons why a job ended or does not continue.

    The fields that this list does not contain are as in `JobFacts`:

    - `failures` begin with the culprit's failure.
    - `others` are the replicas that did not fail.
    - `restarts` are the last restarts.
    - `restarts_in_all` is the number of all restarts.
    - `stacks` has the file with the stacks of the threads, by replica.
    - `waits` has the line of the user's code in the newest stack, by replica.
    - `advice` are next steps.
    """

    namespace: str
    name: str
    outcome: str
    message: str = ""
    stalled: str = ""
    behind: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    others: tuple[Others, ...] = ()
    restarts: tuple[Restart, ...] = ()
    restarts_in_all: int = 0
    stacks: dict[str, str] = {}
    advice: tuple[str, ...] = ()
    usage: str = ""
    no_number: str = ""
    waits: dict[str, str] = {}
    resized: tuple[str, ...] = ()

    @property
    def culprit(self) -> Failure | None:
        """The failure of the culprit."""
        return self.failures[0] if self.failures else None


def make_report(facts: JobFacts) -> Report:
    """Return the report on a job, for any outcome. Even a job that has succeeded may have restarts to report.

    Secrets that `tfoperator.base.masking` recognizes are masked.
    """
    facts = quotable(facts)
    failed = failed_runs(facts.replicas)
    failures = tuple(_folded(failed))
    taken = [Restart(loss.replica, f"was taken: {loss.cause}", loss.when) for loss in facts.taken]
    restarts = sorted((*_restarts(facts.replicas), *taken), key=_moment)
    report = Report(
        namespace=facts.namespace,
        name=facts.name,
        outcome=facts.outcome,
        message=facts.message,
        stalled=facts.stalled,
        behind=facts.behind,
        failures=failures,
        others=tuple(_others(facts.replicas, {bad.replica.name for bad in failed})),
        restarts=tuple(restarts[-_MAX_RESTARTS_TOLD:]),
        restarts_in_all=max(len(restarts), sum(replica.restarts for replica in facts.replicas)),
        stacks={replica.name: replica.stacks for replica in facts.replicas if replica.stacks},
        usage=facts.usage,
        resized=facts.resized,
        no_number=facts.no_number,
        waits={replica.name: replica.waits_at for replica in facts.replicas if replica.waits_at},
    )
    policies = {replica.name: replica.restart_policy for replica in facts.replicas}
    culprit = report.culprit
    repeated = 0
    if culprit is not None and policies[culprit.replica] in ("OnFailure", "Always"):
        repeated = max(culprit.times, _started_again(culprit, facts.replicas))
    advice = advice_for(
        facts,
        failed,
        repeated=repeated if repeated >= IDENTICAL else 0,
        all_known=culprit is not None and culprit.times >= IDENTICAL,
    )
    return msgspec.structs.replace(report, advice=tuple(advice))


def _started_again(culprit: Failure, replicas: Iterable[ReplicaFacts]) -> int:
    """Return the number of the culprit's restarts if earlier runs are unknown and all known failures are the same.

    In all other cases return 0. A cluster keeps only the last runs of a replica.
    """
    replica = next(replica for replica in replicas if replica.name == culprit.replica)
    failures = sum(run.failed for run in replica.runs)
    return replica.restarts if failures == culprit.times and len(replica.runs) <= replica.restarts else 0


def _folded(failed: Iterable[FailedRun]) -> Iterator[Failure]:
    alike: dict[tuple[object, ...], list[FailedRun]] = {}
    for bad in failed:
        alike.setdefault(bad.signature, []).append(bad)
    for first, *rest in alike.values():
        run, replica = first.run, first.replica
        yield Failure(
            replica=replica.name,
            exit_code=run.exit_code,
            reason=run.reason,
            meaning=_meaning(run),
            restarts=max(replica.restarts, ended_runs(replica.runs)),
            ended=run.ended,
            log=run.log,
            traceback=first.traceback,
            last_lines=() if first.traceback is not None else run.tail[-LAST_LINES:],
            same=tuple(bad.replica.name for bad in rest),
            times=_in_a_row(first),
            peak_memory=run.peak_memory,
            memory_limit=replica.memory_limit,
            kernel=run.kernel,
            lost_by=first.lost_by,
            place="" if first.traceback is None else line_before_traceback(run.tail),
        )


def _in_a_row(bad: FailedRun) -> int:
    """Return the number of runs in a row, up to this run, that failed in the same way."""
    count = 0
    for run in reversed(bad.replica.runs):
        if not run.failed:
            if count == 0:
                continue  # the last run is still in progress
            break
        if FailedRun(bad.replica, run, last_traceback(run.tail)).signature != bad.signature:
            break
        count += 1
    return max(count, 1)


def _others(replicas: Iterable[ReplicaFacts], failed: set[str]) -> Iterator[Others]:
    alike: dict[tuple[FinalState, str, str], list[ReplicaFacts]] = {}
    for replica in replicas:
        if replica.name not in failed:
            key = (replica.state, replica.detail or _detail(replica), constant(_last_line(replica)))
            alike.setdefault(key, []).append(replica)
    for (state, detail, _), group in alike.items():
        last = group[0].last_run
        log = last.log if last is not None else ""
        yield Others(tuple(replica.name for replica in group), state, detail, _last_line(group[0]), log)


def _detail(replica: ReplicaFacts) -> str:
    """Return a note if the replica was killed because it did not end within its grace period; otherwise "".

    For a parameter server, always return "": it usually runs until it is killed, and loses nothing.
    """
    killed = replica.last_run is not None and replica.last_run.outlasted_its_grace
    return OUTLASTED if killed and not replica.name.startswith("ps-") else ""


def _last_line(replica: ReplicaFacts) -> str:
    """Return the last line of the log that the user's program may have printed (see `is_of_program`).

    If there is no such line, return the last line of the log.
    """
    run = replica.last_run
    lines = [line.strip() for line in (run.tail if run is not None else ()) if line.strip()]
    return next(filter(is_of_program, reversed(lines)), lines[-1] if lines else "")


def _restarts(replicas: Iterable[ReplicaFacts]) -> list[Restart]:
    """Return the restarts of the replicas.

    A stop is a restart only if the replica has more restarts than runs that ended by themselves. Otherwise the replica
    was stopped because the job was suspended.
    """
    return [
        Restart(replica.name, _cause(replica, run), run.ended)
        for replica in replicas
        for counts_stops in [replica.restarts > ended_runs(replica.runs)]
        for run in replica.runs[:-1]
        if run.exit_code is not None and (counts_stops or not run.stopped)
    ]


def _moment(restart: Restart) -> datetime:
    return restart.when or datetime.min.replace(tzinfo=UTC)


def _cause(replica: ReplicaFacts, run: RunFacts) -> str:
    if run.stopped:
        return "was stopped, to be restarted"
    if run.exit_code == 0:
        return f"succeeded, but its restartPolicy is {replica.restart_policy or 'Always'}"
    bad = FailedRun(replica, run, last_traceback(run.tail))
    first = bad.traceback.exception.rstrip(": ") if bad.traceback is not None else ""
    reasons = [bad.peer] if first in bad.peer else [first, bad.peer]
    return ": ".join((f"exit code {run.exit_code}{_meaning(run)}", *filter(None, reasons)))


def _meaning(run: RunFacts) -> str:
    if run.reason and run.reason not in ("Error", "Completed"):
        return f" ({run.reason})"
    code = run.exit_code
    words = {126: "not executable", 127: "program not found, or can't be started", KILLED: "killed", 143: "terminated"}
    if code in words:
        return f" ({words[code]})"
    name = "" if code is None else signal_of(code)
    return f" ({name})" if name else ""
