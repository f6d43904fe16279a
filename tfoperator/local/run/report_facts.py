"""What the logs and pods of a run, the kernel and the disk say, as the facts of a report."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.kube.objects import Pod
from tfoperator.local.node import kept_stacks
from tfoperator.local.runtime import LogFile, last_lines
from tfoperator.report import (
    TAIL_BYTES,
    TAIL_LINES,
    FinalState,
    JobFacts,
    ReplicaFacts,
    RunFacts,
    facts_of_job,
    facts_of_replica,
)

_RUNS_READ = 20  # of one replica, the last ones: a crash loop has thousands


def replica_facts(job: TFJob, pod: Pod, found: tuple[Sequence[LogFile], FinalState]) -> ReplicaFacts:
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


_NONE_LEFT = 256 * 1024
"""Bytes that count as none: a file system may have some left, but not enough for what was to be written."""


def full_disk(folders: Iterable[Path], *, root: bool | None = None) -> str:
    """The first of these folders on a disk without room for this user; "" if there is none, or it can't be asked.

    `root` may use what is kept back from others; by default it is as this process is.
    """
    root = os.geteuid() == 0 if root is None else root
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue
        free = (found.f_bfree if root else found.f_bavail) * found.f_frsize
        files = found.f_ffree if root else found.f_favail
        # Some file systems count no files at all: those say 0 of 0.
        if free < _NONE_LEFT or (found.f_files > 0 and files == 0):
            return str(folder) if folder != Path() else "the current directory"
    return ""


_KMSG = Path("/dev/kmsg")
_RECORD_BYTES = 8192  # of one record, as the kernel bounds them
_MAX_RECORDS = 100_000
_KILLED = re.compile(r"(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process (\d+) ")


def out_of_memory_kills(records: Iterable[str], pids: Collection[int]) -> dict[int, str]:
    """The kernel's last sentence about each of these processes that it killed for memory. Pure.

    A record is `priority,number,microseconds,flags;text`, as /dev/kmsg has it, with lines of its context after it.
    """
    found = {}
    for record in records:
        text = record.partition(";")[2].partition("\n")[0]
        match = _KILLED.search(text)
        if match is not None and int(match[1]) in pids:
            found[int(match[1])] = text.strip()
    return found


def read_kernel_log(path: Path = _KMSG) -> list[str]:
    """Every record that there is; empty where there is no such log, or it is not for this user."""
    records: list[str] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return records
    try:
        while len(records) < _MAX_RECORDS:
            try:
                data = os.read(descriptor, _RECORD_BYTES)
            except BrokenPipeError:  # overwritten while we read: the next read goes on behind it
                continue
            except OSError:  # BlockingIOError: that was the last one
                break
            if not data:
                break
            records.append(data.decode(errors="replace"))
    finally:
        os.close(descriptor)
    return records
