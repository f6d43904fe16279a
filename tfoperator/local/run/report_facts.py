"""What the logs and pods of a run say, as the facts of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.kube.objects import Pod
from tfoperator.local.node import kept_stacks
from tfoperator.local.run.kernel_log import out_of_memory_kills
from tfoperator.local.runtime import LogFile, last_lines
from tfoperator.report import (
    TAIL_BYTES,
    TAIL_LINES,
    JobFacts,
    ReplicaFacts,
    ReplicaState,
    RunFacts,
    facts_of_job,
    facts_of_replica,
)

_RUNS_READ = 20  # of one replica, the last ones: a crash loop has thousands


def replica_facts(job: TFJob, pod: Pod, found: tuple[Sequence[LogFile], ReplicaState]) -> ReplicaFacts:
    """What is known of the replica of a pod, of whose decisive container these are the logs, and how it ended."""
    logs, state = found
    stacks = [kept_stacks(log.path) for log in logs]
    return facts_of_replica(
        job,
        pod,
        state=state,
        runs=[_run(log) for log in logs[-_RUNS_READ:]],
        restarts=max(len(logs) - 1, 0),
        stacks=next((file for file, _ in reversed(stacks) if file), ""),
        no_stacks=next((why for _, why in reversed(stacks) if why), ""),
    )


def job_facts(job: TFJob, outcome: str, replicas: Iterable[ReplicaFacts]) -> JobFacts:
    """What is known of a job."""
    return msgspec.structs.replace(facts_of_job(job), outcome=outcome, replicas=tuple(replicas))


def with_kernel_log(facts: JobFacts, logs: Iterable[LogFile], read: Callable[[], Iterable[str]]) -> JobFacts:
    """The facts with what the kernel says of processes that were killed; it is asked only where one was."""
    killed = {str(log.path): log.pid for log in logs if log.exit_code == 137 and log.pid is not None}
    if not killed:
        return facts
    said = out_of_memory_kills(read(), frozenset(killed.values()))

    def told(run: RunFacts) -> RunFacts:
        pid = killed.get(run.log)
        return run if pid not in said else msgspec.structs.replace(run, kernel=said[pid])

    replicas = tuple(
        msgspec.structs.replace(replica, runs=tuple(map(told, replica.runs))) for replica in facts.replicas
    )
    return msgspec.structs.replace(facts, replicas=replicas)


def _run(log: LogFile) -> RunFacts:
    return RunFacts(
        exit_code=log.exit_code,
        reason=log.reason,
        ended=log.ended,
        stopped=log.stopped,
        tail=tuple(last_lines(log.path, TAIL_LINES, TAIL_BYTES)),
        log=str(log.path),
        peak_memory=log.peak_memory,
    )
