"""The last words of `tfoperator run`: what became of each replica, where the logs are, and what to do next. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tfoperator.local.results import JobResult, Outcome, ReplicaResult, RunResult

__all__ = ["summary"]


def summary(result: RunResult) -> list[str]:
    """The lines to show."""
    lines: list[str] = []
    for job in result.jobs:
        lines += ["", _headline(job, result), *_table(job)]
        for replica in job.failed_replicas:
            lines += ["", *_failure(replica)]
        lines += _advice(job, result)
        if job.log_dir:
            lines += ["", f"To look at its TensorBoard again: tensorboard --logdir {shlex.quote(job.log_dir)}"]
    if not result.jobs:
        lines += ["", f"no job was created: {result.outcome}"]
    lines += ["", f"logs, events and the final TFJob are in {result.run_directory}"]
    return lines


def _headline(job: JobResult, result: RunResult) -> str:
    after = f"after {result.seconds:.1f} s"
    if job.condition:
        words = "succeeded" if job.succeeded else "FAILED"
        return f"TFJob {job.name} {words} {after}" + ("" if job.succeeded else f": {job.message}")
    if result.outcome is Outcome.TIMED_OUT:
        return f"TFJob {job.name} did not end within the time limit, stopped {after}"
    return f"TFJob {job.name} was interrupted {after}"


def _table(job: JobResult) -> Iterator[str]:
    rows = [("REPLICA", "RESULT", "RESTARTS", "EXIT CODE")]
    for replica in job.replicas:
        code = "-" if replica.exit_code is None else str(replica.exit_code)
        rows.append((replica.name, str(replica.state), str(replica.restarts), code))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _failure(replica: ReplicaResult) -> Iterator[str]:
    times = f" after {replica.restarts} restart{'s' if replica.restarts != 1 else ''}" if replica.restarts else ""
    yield f"{replica.name} failed with exit code {replica.exit_code}{_meaning(replica.exit_code)}{times}."
    if replica.last_lines:
        yield f"Its last log lines ({replica.logs[-1]}):"
        yield from (f"  | {line}" for line in replica.last_lines)
    else:
        yield "It has logged nothing."


def _meaning(code: int | None) -> str:
    known = {126: "not executable", 127: "not found or impossible to start", 137: "killed", 143: "terminated"}
    if code in known:
        return f" ({known[code]})"
    return f" (signal {code - 128})" if code is not None and 128 < code < 160 else ""


def _advice(job: JobResult, result: RunResult) -> Iterator[str]:
    if job.succeeded or result.outcome is Outcome.INTERRUPTED:
        return
    yield ""
    if result.outcome is Outcome.TIMED_OUT:
        yield "Next: give it more time with --timeout, or look into the logs for what it waits for."
    elif any(replica.exit_code in (126, 127) for replica in job.failed_replicas):
        yield (
            "Next: a container's `command` must exist on this machine (relative paths start where you are) or, with "
            "--runtime docker, in its image, and be executable."
        )
    elif any(replica.exit_code == 137 for replica in job.failed_replicas):
        yield (
            "Next: it was killed from outside, mostly because memory ran out (`dmesg` tells, or the memory limit with "
            "--runtime docker): let it need less, or run fewer replicas at a time."
        )
    elif any("No module named" in line for replica in job.failed_replicas for line in replica.last_lines):
        yield (
            "Next: install the missing module. Without --runtime docker, `python` is the interpreter that runs "
            "tfoperator, whatever the image has."
        )
    elif job.failed_replicas:
        cause = "what the log says" if any(replica.last_lines for replica in job.failed_replicas) else "the program"
        yield (
            f"Next: correct {cause} and run it again. To have a failed replica started again instead, set its "
            "restartPolicy to OnFailure, or to ExitCode for exit codes of 128 and more."
        )
    else:
        yield "Next: look at the conditions and events in the run directory."
