"""The result of a run, as values. The summary on the terminal, `-o json` and the exit code use these values.

The result of each replica comes from its logs (a `LogFile` also contains the exit code), and not from pods. When the
result is made, the pods may no longer exist. A pod that was stopped at the end of the run has failed (exit code 143),
but its replica has not failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import utc
from tfoperator.base.masking import masked_lines
from tfoperator.kube.views.objects import Pod
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.run.ending import FINISHED_MESSAGE, RunEnd
from tfoperator.local.run.finished import has_finished, trained_to_its_end
from tfoperator.local.run.report_facts import replica_facts, with_kernel_log
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.measurements import PeakMemory
from tfoperator.report.blame import LAST_LINES
from tfoperator.report.facts import FinalState, ReplicaFacts, Typed
from tfoperator.report.job import facts_of_job
from tfoperator.report.report import Report, make_report


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    INTERRUPTED = "Interrupted"

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 124 (as in `timeout`) after a timeout, and 130 (as in shells) after Ctrl-C."""
        return {RunOutcome.SUCCEEDED: 0, RunOutcome.FAILED: 1, RunOutcome.TIMED_OUT: 124, RunOutcome.INTERRUPTED: 130}[
            self
        ]


class ReplicaResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of one replica.

    `exit_code` is from its last attempt. `last_lines` are the last lines of this attempt, if the replica failed.
    `peak_memory` is the sum of the peak memory of its containers, in bytes. The peak of a container is the highest
    value of all its attempts. `peak_memory` is None if the containers ended before a measurement.
    """

    name: str  # e.g. worker-0
    pod: str
    state: FinalState
    restarts: int
    exit_code: int | None
    logs: tuple[str, ...]
    last_lines: tuple[str, ...] = ()
    peak_memory: int | None = None


class JobResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of one TFJob. `condition` is empty if the job had not ended.

    `log_dir` is the directory that the job's TensorBoard showed, for `tensorboard --logdir`. `log_dir` is empty if the
    job had no TensorBoard, or if the directory no longer exists. `report` has the reasons why the job did not succeed,
    and other problems. `parameters` are the parameters with which the job trained.
    """

    namespace: str
    name: str
    condition: str
    reason: str
    message: str
    replicas: tuple[ReplicaResult, ...]
    log_dir: str = ""
    report: Report | None = None
    parameters: dict[str, str] = {}
    progress: TrainingProgress | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the job has succeeded."""
        return self.condition == ConditionType.SUCCEEDED

    @property
    def failed_replicas(self) -> tuple[ReplicaResult, ...]:
        """The replicas that failed."""
        return tuple(replica for replica in self.replicas if replica.state is FinalState.FAILED)


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a run. `seconds` is the duration of the run. `began` is the time when it began.

    `exit_code` is the command's exit code. By default, it is `outcome.exit_code`. `message` is the reason if the run
    itself failed, for example because its control plane did not start.
    """

    outcome: RunOutcome
    seconds: float
    run_directory: str
    jobs: tuple[JobResult, ...]
    began: datetime
    exit_code: int = -1
    message: str = ""

    def __post_init__(self) -> None:
        """Set the exit code, if it was not given."""
        if self.exit_code < 0:
            msgspec.structs.force_setattr(self, "exit_code", self.outcome.exit_code)

    @property
    def end(self) -> RunEnd:
        """The end of the run, from which the last state of its jobs is made."""
        at = utc(self.began) + timedelta(seconds=self.seconds)
        replicas = {(job.namespace, replica.pod): replica.state for job in self.jobs for replica in job.replicas}
        finished = frozenset(
            (job.namespace, job.name) for job in self.jobs if job.reason == JobReason.FINISHED_WHEN_INTERRUPTED
        )
        return RunEnd(str(self.outcome), at, self.message, replicas, finished)


class Evidence(msgspec.Struct, frozen=True):
    """Facts from this machine about a job's replicas, in addition to their logs.

    - `peaks` contains the peak memory of the replicas' containers.
    - `kernel_log` is called if a process was killed. It returns the records of the kernel's log.
    - `full_disk` is called if a replica has failed. It returns the folder whose disk is full, or "".
    - `apart` contains replicas that could not have connected to each other.
    - `quiet` contains, by the path of a log, for how many seconds nothing had been written to this log when the run
      reached its time limit.
    """

    peaks: PeakMemory = msgspec.field(default_factory=PeakMemory)
    kernel_log: Callable[[], Iterable[str]] = tuple
    full_disk: Callable[[], str] = str
    apart: tuple[str, ...] = ()
    quiet: Mapping[str, float] = {}


_LOGS_ALONE = Evidence()


def job_result(
    job: TFJob,
    pods: Iterable[Pod],
    logs: LogStore,
    *,
    log_dir: str = "",
    outcome: RunOutcome = RunOutcome.FAILED,
    deleted: bool = False,
    parameters: Mapping[str, str] | None = None,
    typed: Typed = Typed.MANIFEST,
    evidence: Evidence = _LOGS_ALONE,
) -> JobResult:
    """Return the result of a job.

    The arguments are the job's last state, all pods of the job, and the logs of these pods. `log_dir` is the log
    directory of the job's TensorBoard on this machine. `outcome` is the run's outcome, which decides the result of a
    job that has not ended. With `deleted`, the job was deleted before it had ended. `parameters` are the parameters
    with which the job trained. `typed` is the kind of input that the user gave: the report's advice uses its words.
    `evidence` contains more facts for the report.
    """
    quiet = evidence.quiet
    end = final_condition(job)
    by_name = {pod.metadata.name: pod for pod in pods}
    attempts: dict[str, list[_Attempt]] = {name: [] for name in by_name}
    for namespace, pod_name, container, log in logs.all():
        if namespace == job.metadata.namespace and pod_name in attempts:
            init = {status.name for status in by_name[pod_name].status.init_container_statuses}
            attempts[pod_name].append(_Attempt(log, container in init))
    facts = msgspec.structs.replace(
        facts_of_job(job),
        outcome=end.type if end else str(outcome),
        replicas=tuple(replica_facts(job, by_name[pod], _chosen(attempts[pod])) for pod in sorted(by_name)),
        apart=evidence.apart,
        typed=typed,
        quiet_seconds=min(
            (quiet[str(log.path)] for pod_logs in attempts.values() for log, _ in pod_logs if str(log.path) in quiet),
            default=None,
        ),
    )
    facts = with_kernel_log(facts, [log for pod_logs in attempts.values() for log, _ in pod_logs], evidence.kernel_log)
    if any(replica.state is FinalState.FAILED for replica in facts.replicas):
        facts = msgspec.structs.replace(facts, full_disk=evidence.full_disk())
    condition, reason, message = (end.type, end.reason, end.message) if end else ("", "", "")
    if end is None and outcome is RunOutcome.INTERRUPTED and has_finished(job, facts.replicas):
        condition, reason, message = ConditionType.SUCCEEDED, JobReason.FINISHED_WHEN_INTERRUPTED, FINISHED_MESSAGE
        replicas = tuple(
            msgspec.structs.replace(replica, state=FinalState.SUCCEEDED) if trained_to_its_end(replica) else replica
            for replica in facts.replicas
        )
        facts = msgspec.structs.replace(facts, outcome=condition, message=message, replicas=replicas)
    elif end is None and deleted:
        condition, reason, message = ConditionType.FAILED, JobReason.RUN_FAILED, deleted_message(job)
        facts = msgspec.structs.replace(facts, outcome=condition, message=message)
    return JobResult(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        condition=condition,
        reason=reason,
        message=message,
        replicas=tuple(
            _replica(
                replica, attempts[replica.pod], evidence.peaks.of_pod(job.metadata.namespace, replica.pod).values()
            )
            for replica in facts.replicas
        ),
        log_dir=log_dir,
        report=make_report(facts),
        parameters=dict(parameters or {}),
        progress=job.status.progress,
    )


def deleted_message(job: TFJob) -> str:
    """Return the message about a job that was deleted before it had ended."""
    return f"TFJob {job.metadata.key} was deleted before it had ended."


class _Attempt(NamedTuple):
    log: LogFile
    init: bool  # whether it is the log of an init container


def _chosen(attempts: list[_Attempt]) -> tuple[list[LogFile], FinalState]:
    """Return the logs of the container that decides the replica's result, in order, and how the replica ended."""
    latest = {attempt.log.path.parent: attempt.log for attempt in attempts}
    # The container `tensorflow` decides how a replica has ended. Other containers count only if it never ran.
    latest = {folder: log for folder, log in latest.items() if folder.name == DEFAULT_CONTAINER_NAME} or latest
    failed = [log for log in latest.values() if log.exit_code not in (None, 0) and not log.stopped]
    main = [log for log, init in attempts if not init and log.path.parent in latest]
    chosen = failed[0] if failed else latest[main[0].path.parent] if main else None
    if chosen is None:
        return [], FinalState.NEVER_RAN
    logs = [attempt.log for attempt in attempts if attempt.log.path.parent == chosen.path.parent]
    if failed:
        return logs, FinalState.FAILED
    ended_well = chosen.exit_code == 0 and not chosen.stopped
    return logs, FinalState.SUCCEEDED if ended_well else FinalState.STOPPED


def _replica(facts: ReplicaFacts, attempts: list[_Attempt], peaks: Collection[int]) -> ReplicaResult:
    last = facts.last_run
    return ReplicaResult(
        name=facts.name,
        pod=facts.pod,
        state=facts.state,
        restarts=facts.restarts,
        exit_code=last.exit_code if last else None,
        logs=tuple(str(attempt.log.path) for attempt in attempts),
        last_lines=masked_lines(last.tail)[-LAST_LINES:] if last and facts.state is FinalState.FAILED else (),
        peak_memory=sum(peaks) if peaks else None,
    )
