"""The summary of `tfoperator run`: the result of each replica, the location of the logs, and the next step. No I/O."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tfoperator.local.run.results import JobResult, RunOutcome, RunResult
from tfoperator.report.text import report_lines, used_lines


def summary(result: RunResult) -> list[str]:
    """Return the lines of the summary."""
    lines: list[str] = []
    for job in result.jobs:
        lines += ["", _headline(job, result), *_table(job)]
        lines += _report(job)
        used = [] if job.report is None else used_lines(job.report)
        lines += ["", *used] if used else []
        if job.log_dir:
            lines += [
                "",
                f"To look at the TensorBoard of the job again: tensorboard --logdir {shlex.quote(job.log_dir)}",
            ]
    if not result.jobs:
        lines += ["", f"no job was created: {result.outcome}"]
    lines += ["", f"logs, events and the final TFJob are in {result.run_directory}"]
    return lines


def _headline(job: JobResult, result: RunResult) -> str:
    after = f"after {result.seconds:.1f} s"
    if job.condition:
        words = "succeeded" if job.succeeded else "FAILED"
        return f"TFJob {job.name} {words} {after}" + ("" if job.succeeded else f": {job.message}")
    if result.outcome is RunOutcome.TIMED_OUT:
        return f"TFJob {job.name} did not end within the time limit, and was stopped {after}"
    return f"TFJob {job.name} was interrupted {after}"


def _table(job: JobResult) -> Iterator[str]:
    rows = [("REPLICA", "RESULT", "RESTARTS", "EXIT CODE")]
    for replica in job.replicas:
        code = "-" if replica.exit_code is None else str(replica.exit_code)
        rows.append((replica.name, str(replica.state), str(replica.restarts), code))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _report(job: JobResult) -> Iterator[str]:
    """Yield the lines of the job's report: why it did not succeed, or the causes of restarts."""
    if job.report is None:
        return
    lines = report_lines(job.report)
    if lines:
        yield ""
        yield from lines
