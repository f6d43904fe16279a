"""How a run ended, as values: for the summary on the terminal, for `-o json`, and for the exit code.

What each replica did is read from its logs' records, not from pods: pods are gone when the job has been cleaned up,
and a pod that was stopped at the end (exit code 143) has not failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from tfoperator.api.names import LABEL_TENSORBOARD, replica_of
from tfoperator.api.v1.types import ConditionType, JobCondition, TFJob
from tfoperator.kube.objects import Pod
from tfoperator.local.logs import LogFile, LogStore, last_lines

__all__ = [
    "TENSORBOARD",
    "JobResult",
    "Outcome",
    "ReplicaResult",
    "ReplicaState",
    "RunResult",
    "final_condition",
    "job_result",
    "replica_name",
]

LAST_LINES = 20
"""How many of the last log lines of a failed replica are shown."""


TENSORBOARD = "tensorboard"
"""What the pod of a job's TensorBoard is called among its replicas."""


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    INTERRUPTED = "Interrupted"

    @property
    def exit_code(self) -> int:
        """The process's exit code: 124 as of `timeout`, 130 as shells say it of an interrupted program."""
        return {Outcome.SUCCEEDED: 0, Outcome.FAILED: 1, Outcome.TIMED_OUT: 124, Outcome.INTERRUPTED: 130}[self]


class ReplicaState(StrEnum):
    """How a replica ended. STOPPED: it ran until the job was over."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    NEVER_RAN = "NeverRan"  # not even if its init containers did


class ReplicaResult(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one replica. `exit_code` and `last_lines` are those of its last attempt (if it failed)."""

    name: str  # e.g. worker-0
    pod: str
    state: ReplicaState
    restarts: int
    exit_code: int | None
    logs: tuple[str, ...]
    last_lines: tuple[str, ...] = ()


class JobResult(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one TFJob. `condition` is empty if it had not ended.

    `log_dir` is what its TensorBoard showed, as `tensorboard --logdir` takes it; empty if it had none, or all is gone.
    """

    namespace: str
    name: str
    condition: str
    reason: str
    message: str
    replicas: tuple[ReplicaResult, ...]
    log_dir: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the job has succeeded."""
        return self.condition == ConditionType.SUCCEEDED

    @property
    def failed_replicas(self) -> tuple[ReplicaResult, ...]:
        """Those to look at."""
        return tuple(replica for replica in self.replicas if replica.state is ReplicaState.FAILED)


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """What became of a run. `seconds` is its duration."""

    outcome: Outcome
    seconds: float
    run_directory: str
    jobs: tuple[JobResult, ...]

    @property
    def exit_code(self) -> int:
        """What the command's exit code has to be."""
        return self.outcome.exit_code


def final_condition(job: TFJob) -> JobCondition | None:
    """The condition that says how a job ended, None while it has not."""
    for condition in job.status.conditions:
        if condition.type in (ConditionType.SUCCEEDED, ConditionType.FAILED) and condition.status == "True":
            return condition
    return None


def replica_name(pod: Pod) -> str:
    """`worker-0` for the pod of a replica, `tensorboard` for a TensorBoard's, the pod's own name for any other."""
    if LABEL_TENSORBOARD in pod.metadata.labels:
        return TENSORBOARD
    replica = replica_of(pod.metadata.labels)
    return f"{replica[0].lower()}-{replica[1]}" if replica is not None else pod.metadata.name


def job_result(job: TFJob, pods: Iterable[Pod], logs: LogStore, log_dir: str = "") -> JobResult:
    """Sum up a job from its last state, the pods that it ever had, their logs, and its `log_dir` on this machine."""
    end = final_condition(job)
    by_name = {pod.metadata.name: pod for pod in pods}
    attempts: dict[str, list[_Attempt]] = {name: [] for name in by_name}
    for namespace, pod_name, container, log in logs.all():
        if namespace == job.metadata.namespace and pod_name in attempts:
            init = {status.name for status in by_name[pod_name].status.init_container_statuses}
            attempts[pod_name].append(_Attempt(log, container in init))
    return JobResult(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        condition=end.type if end else "",
        reason=end.reason if end else "",
        message=end.message if end else "",
        replicas=tuple(_replica(replica_name(by_name[pod]), pod, attempts[pod]) for pod in sorted(by_name)),
        log_dir=log_dir,
    )


class _Attempt(NamedTuple):
    log: LogFile
    init: bool  # of an init container


def _replica(name: str, pod: str, attempts: list[_Attempt]) -> ReplicaResult:
    logs = [attempt.log for attempt in attempts]
    # Several containers have a log each: the one that failed is the one to talk about.
    latest = {log.path.parent: log for log in logs}
    failed = [log for log in latest.values() if log.exit_code not in (None, 0) and not log.stopped]
    main = [attempt.log for attempt in attempts if not attempt.init]
    chosen = failed[0] if failed else latest[main[0].path.parent] if main else None
    if chosen is None:
        paths = tuple(str(log.path) for log in logs)
        return ReplicaResult(name, pod, ReplicaState.NEVER_RAN, len(logs) - len(latest), None, paths)
    if failed:
        state = ReplicaState.FAILED
    elif chosen.exit_code == 0 and not chosen.stopped:
        state = ReplicaState.SUCCEEDED
    else:
        state = ReplicaState.STOPPED
    return ReplicaResult(
        name=name,
        pod=pod,
        state=state,
        restarts=len(logs) - len(latest),
        exit_code=chosen.exit_code,
        logs=tuple(str(log.path) for log in logs),
        last_lines=tuple(last_lines(Path(chosen.path), LAST_LINES)) if failed else (),
    )
