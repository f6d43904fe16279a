"""Collects the facts for a report: from the logs and pods of a run, from the kernel's log and from the disk."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import Pod
from tfoperator.local.runtime.log_files import LogFile, last_lines
from tfoperator.report.facts import (
    KILLED,
    TAIL_BYTES,
    TAIL_LINES,
    FinalState,
    JobFacts,
    ReplicaFacts,
    RunFacts,
    ended_runs,
)
from tfoperator.report.job import facts_of_replica
from tfoperator.report.log_lines import plain_lines
from tfoperator.report.stack_text import waits_at

_MAX_RUNS = 20  # the last runs of a replica that a report contains: a crash loop has thousands


def replica_facts(job: TFJob, pod: Pod, found: tuple[Sequence[LogFile], FinalState]) -> ReplicaFacts:
    """Return the facts about a pod's replica.

    `found` contains the logs of the container that decides the replica's result, and the replica's final state.
    """
    logs, state = found
    stacks = next((log.stacks for log in reversed(logs) if log.stacks), "")
    facts = facts_of_replica(
        job,
        pod,
        state=state,
        runs=[_run(log) for log in logs[-_MAX_RUNS:]],
        ended_runs=ended_runs(logs),
        stacks=stacks,
        no_stacks=next((log.no_stacks for log in reversed(logs) if log.no_stacks), ""),
    )
    newest = last_lines(Path(stacks), TAIL_LINES, TAIL_BYTES) if stacks else ()
    return msgspec.structs.replace(facts, waits_at=waits_at(plain_lines(newest)))


def with_kernel_log(facts: JobFacts, logs: Iterable[LogFile], read: Callable[[], Iterable[str]]) -> JobFacts:
    """Return the facts with the kernel's messages about killed processes.

    `read` returns the records of the kernel's log. `read` is called only if a process was killed.
    """
    killed = {str(log.path): log.pid for log in logs if log.exit_code == KILLED and log.pid is not None}
    if not killed:
        return facts
    records = list(read())
    messages = out_of_memory_kills(records, frozenset(killed.values()))

    def told(run: RunFacts) -> RunFacts:
        if run.log not in killed:
            return run
        kernel = messages.get(killed[run.log], "")
        return msgspec.structs.replace(run, kernel=kernel, kernel_silent=bool(records) and not kernel)

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
        tail=plain_lines(last_lines(log.path, TAIL_LINES, TAIL_BYTES)),
        log=str(log.path),
        peak_memory=log.peak_memory,
    )


def quiet_seconds(logs: Iterable[LogFile], now: float) -> dict[str, float]:
    """Return for how many seconds nothing has been written to each of these logs, by its path. `now` is a POSIX time.

    Call this function before programs are stopped, because programs may print more lines when they are stopped.
    """
    quiet = {}
    for log in logs:
        try:
            quiet[str(log.path)] = max(0.0, now - log.path.stat().st_mtime)
        except OSError:
            continue
    return quiet


_MIN_FREE = 256 * 1024
"""If a disk has fewer free bytes than this, it counts as full. Some bytes may be free, but not enough for the write
that failed.
"""


def full_disk(folders: Iterable[Path], *, root: bool | None = None) -> str:
    """Return the first of these folders whose disk has no free space for this user.

    Return "" if there is none, or if this is unknown. With `root`, the space that is reserved for root counts as free.
    The default of `root` is whether this process runs as root.
    """
    root = os.geteuid() == 0 if root is None else root
    for folder in folders:
        try:
            file_system = os.statvfs(folder)
        except OSError:
            continue
        free = (file_system.f_bfree if root else file_system.f_bavail) * file_system.f_frsize
        files = file_system.f_ffree if root else file_system.f_favail
        # Some file systems do not count files: they report 0 of 0.
        if free < _MIN_FREE or (file_system.f_files > 0 and files == 0):
            return str(folder) if folder != Path() else "the current directory"
    return ""


_KMSG = Path("/dev/kmsg")
_RECORD_BYTES = 8192  # maximum size of one record in the kernel
_MAX_RECORDS = 100_000
_KILL_PATTERN = re.compile(r"(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process (\d+) ")


def out_of_memory_kills(records: Iterable[str], pids: Collection[int]) -> dict[int, str]:
    """Return, by process ID, the kernel's last message about each process that the kernel killed because of lack of
    memory. Only processes in `pids` are returned. Pure.

    A record has the format `priority,number,microseconds,flags;text`, as in /dev/kmsg. More lines, with the context of
    the record, may follow.
    """
    messages = {}
    for record in records:
        text = record.partition(";")[2].partition("\n")[0]
        match = _KILL_PATTERN.search(text)
        if match is not None and int(match[1]) in pids:
            messages[int(match[1])] = text.strip()
    return messages


def read_kernel_log(path: Path = _KMSG) -> list[str]:
    """Return all records of the kernel's log.

    The list is empty if there is no such log, or if this user may not read it.
    """
    records: list[str] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return records
    try:
        while len(records) < _MAX_RECORDS:
            try:
                data = os.read(descriptor, _RECORD_BYTES)
            except BrokenPipeError:  # the kernel has overwritten the next record: the following read continues after it
                continue
            except OSError:  # BlockingIOError: no more records
                break
            if not data:
                break
            records.append(data.decode(errors="replace"))
    finally:
        os.close(descriptor)
    return records
