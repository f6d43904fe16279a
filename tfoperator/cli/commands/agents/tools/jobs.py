"""The tools that read jobs: jobs of a cluster, and runs on this machine. These tools change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.api.v1.usage_text import usage_text
from tfoperator.base.clock import SystemClock
from tfoperator.base.controlchars import plain_text, shown_line
from tfoperator.base.masking import masked_lines, without_private_keys
from tfoperator.cli.commands.agents.messages import answers, arguments
from tfoperator.cli.commands.agents.tools import log_lines
from tfoperator.cli.commands.agents.tools.scope import JobOf, Scope, Step
from tfoperator.cli.commands.jobs.diagnosing import nothing_runs, run_without_stacks
from tfoperator.cli.commands.jobs.logs import selection_of
from tfoperator.cli.commands.runs import curves_of
from tfoperator.cli.recorded import kept_runs
from tfoperator.cli.views.jobs import replicas_text
from tfoperator.cli.views.progress import behind_text, progress_text
from tfoperator.cli.views.runs import run_row
from tfoperator.kube.protocol.errors import ConfigError, KubeError
from tfoperator.local.run.kept import KeptRun
from tfoperator.report.facts import FinalState
from tfoperator.report.report import Failure, Others, Report
from tfoperator.report.text import headline, names_in_short, report_lines
from tfoperator.sdk import ReplicaLog, TFJobError
from tfoperator.sdk.states import ready_text, restart_count

_LOG_BYTES = 2 << 20
"""The number of bytes that are read from the end of each replica's log: so reading even a large log takes less than a
second.
"""
_MAX_REPLICAS = 64
"""The maximum number of replicas whose logs are in one answer: the default size of an answer (8,000 characters) has no
room for more.
"""
_CURVE_POINTS = 20
"""The maximum number of points of a curve in an answer; they are spread evenly from the first point to the last."""


def list_jobs(scope: Scope, asked: arguments.ListJobs, step: Step) -> answers.JobList:
    """Return the jobs of the cluster, and the runs of this machine."""
    step("reading the runs of this machine")
    runs, count = kept_runs(asked.limit)
    lines = [_run_line(run) for run in runs]
    left_out = [f"{count - len(runs)} older runs"] if count > len(runs) else []
    where = scope.namespace(asked.namespace, everywhere=asked.all_namespaces)
    step("reading the jobs of the cluster")
    try:
        with scope.cluster_client(where) as client:
            jobs = client.list_jobs(where or None, all_namespaces=where == "")
            problem = ""
    except (ConfigError, KubeError, TFJobError) as error:
        jobs, problem = [], f"The jobs of the cluster could not be read: {error}"
    jobs.sort(key=lambda job: job.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC), reverse=True)
    if len(jobs) > asked.limit:
        left_out.append(f"{len(jobs) - asked.limit} older jobs of the cluster")
    job_lines = (*map(_job_line, jobs[: asked.limit]), *lines)
    return answers.JobList(jobs=job_lines, cluster=problem, left_out=tuple(left_out))


def _job_line(job: TFJob) -> answers.JobLine:
    progress, now = job.status.progress, SystemClock().now()
    return answers.JobLine(
        job=job.metadata.name,
        where="cluster",
        namespace=job.metadata.namespace,
        state=job.state.word,
        message=job.state.message,
        replicas=replicas_text(job),
        ready=ready_text(job),
        restarts=restart_count(job),
        began=job.status.start_time or job.metadata.creation_timestamp,
        ended=job.status.completion_time,
        progress="" if progress is None else progress_text(progress, now),
    )


def _run_line(run: KeptRun) -> answers.JobLine:
    jobs = () if run.result is None else run.result.jobs
    failed = next((job for job in jobs if not job.succeeded), None)
    cells = run_row(run, SystemClock().now())
    return answers.JobLine(
        job=run.name,
        where="run",
        state=run.state,
        message="" if failed is None else failed.message,
        began=run.began,
        ended=run.ended,
        progress=", ".join(cell for cell in cells[4:6] if cell != "-"),
    )


def explain(scope: Scope, asked: arguments.Explain, step: Step) -> answers.Explanation:
    """Return the reason why a job failed or makes no progress, from the job's report."""
    with scope.job(asked) as job:
        step("reading the job, its pods and their logs")
        report = job.client.get_job_report(job.name)
    return explained_by(report, asked.job, whole=asked.whole)


def explained_by(report: Report, word: str, *, whole: bool = False) -> answers.Explanation:
    """Return a report as an answer. Pure.

    `word` is the name of the job in the call. With `whole`, the answer also has the report as data.
    """
    failure = report.culprit
    lines = [line for line in report_lines(report) if line]
    steps = (_waiting(others)[1] for others in report.others)
    return answers.Explanation(
        job=word,
        namespace=report.namespace,
        state=report.outcome,
        cause=cause_of(report),
        first_failure=None if failure is None else _first_failure(failure),
        # The report's text ends with its advice.
        evidence=tuple(lines[: len(lines) - len(report.advice)]),
        next_steps=(*report.advice, *(f"{step[0].upper()}{step[1:]}." for step in dict.fromkeys(steps) if step)),
        report=report if whole else None,
    )


def cause_of(report: Report) -> str:
    """Return the cause of the job's state in one line.

    If a replica has failed, the line describes the first failure. If the job has succeeded, the line states this.
    Otherwise, it describes the stall, the job's message, and the reason why replicas wait.
    """
    failure = report.culprit
    if failure is not None:
        why = _exception(failure) or next(iter(failure.last_lines[-1:]), "it has written no log")
        return f"{failure.replica} failed first, with exit code {failure.exit_code}{failure.meaning}: {why}"
    if report.outcome == "Succeeded":
        return "The job has succeeded."
    waits = [f"{names_in_short(others.replicas)}: {why}" for others in report.others if (why := _waiting(others)[0])]
    reasons = [reason for reason in (report.stalled, report.no_number, report.message, "; ".join(waits)) if reason]
    return " ".join(dict.fromkeys(reasons)) or headline(report)


def _waiting(others: Others) -> tuple[str, str]:
    """Return why these replicas of one state wait, and the next step; return empty texts if they do not wait."""
    if others.state not in (FinalState.WAITING, FinalState.RUNNING):
        return "", ""
    why, _, step = others.detail.partition(". Next: ")
    return why, step.rstrip(".")


def _first_failure(failure: Failure) -> answers.FirstFailure:
    return answers.FirstFailure(
        replica=failure.replica,
        exit_code=failure.exit_code,
        meaning=failure.meaning.strip(" ()"),
        exception=_exception(failure),
        restarts=failure.restarts,
        also_failed=failure.same,
        log=failure.log,
    )


def _exception(failure: Failure) -> str:
    return "" if failure.traceback is None else failure.traceback.exception


def logs(scope: Scope, asked: arguments.ReadLogs, step: Step) -> answers.Logs:
    """Return lines of the logs of a job's replicas."""
    which = selection_of(asked.replica, all_replicas=asked.all_replicas)
    with scope.job(asked) as job:
        step("reading logs")
        replica_logs = job.client.get_replica_logs(
            job.name,
            previous=asked.previous,
            timestamps=True,
            tail_bytes=_LOG_BYTES,
            **msgspec.structs.asdict(which),
        )
    parts = tuple(_log_part(log, asked) for log in replica_logs[:_MAX_REPLICAS])
    more = (
        [f"the logs of {len(replica_logs) - _MAX_REPLICAS} other replicas"] if len(replica_logs) > _MAX_REPLICAS else []
    )
    return answers.Logs(job=asked.job, logs=parts, left_out=tuple(more))


def _log_part(log: ReplicaLog, asked: arguments.ReadLogs) -> answers.LogPart:
    pod = log.pod.metadata.name
    if log.text is None:
        what = "previous log" if asked.previous else "log"
        return answers.LogPart(replica=log.replica, pod=pod, problem=f"there is no {what}")
    timed = log_lines.with_times(log.text.removesuffix("\n")) if log.text else []
    lines = _without_private_keys([shown_line(line) for _, line in timed])
    if asked.around is not None:
        places = log_lines.nearest([when for when, _ in timed], asked.around)
        problem = "" if places else "the log's lines have no times"
        context = (asked.lines - 1) // 2 if asked.pattern is None else asked.context
    elif asked.pattern is not None:
        places, context = log_lines.matching(lines, asked.pattern), asked.context
        problem = "" if places else "this text was not found in the log"
    else:
        places, context, problem = [*range(max(len(lines) - asked.lines, 0), len(lines))], 0, ""
    if asked.around is not None and asked.pattern is not None:
        near = [at for at in log_lines.matching(lines, asked.pattern) if places]
        places = sorted(near, key=lambda at: abs(at - places[0]))[:1] or places
    return answers.LogPart(
        replica=log.replica,
        pod=pod,
        lines=masked_lines(map(plain_text, log_lines.around(lines, places, context, asked.lines))),
        total=len(lines),
        read=_read(log),
        problem=problem,
    )


def _without_private_keys(lines: list[str]) -> list[str]:
    """Return the lines of a log without private keys. The function needs all lines, because a key has several lines.

    Each other line keeps its number.
    """
    if not any("PRIVATE KEY" in line for line in lines):
        return lines
    return without_private_keys("\n".join(map(plain_text, lines)), keep_line_ends=True).split("\n")


def _read(log: ReplicaLog) -> str:
    """Return which part of a log was read. The limit applies only to logs that come from the API server.

    The limit is a number of bytes, and a character can have several bytes.
    """
    if log.archived is not None:
        return "archived"
    size = len((log.text or "").encode(errors="replace"))
    return f"the last {_LOG_BYTES >> 20} MiB" if size >= _LOG_BYTES else "all"


def events(scope: Scope, asked: arguments.AboutJob, step: Step) -> answers.Events:
    """Return the events of a job, its pods and services."""
    with scope.job(asked) as job:
        step("reading events")
        job_events = job.client.get_job_events(job.name)
    return answers.Events(
        job=asked.job,
        events=tuple(
            answers.EventLine(
                last_seen=event.last_seen,
                type=event.type,
                reason=event.reason,
                object=event.subject,
                message=event.message,
                count=event.times,
            )
            for event in job_events
        ),
    )


def progress(scope: Scope, asked: arguments.Progressing, step: Step) -> answers.ProgressOfTraining:
    """Return the progress of a job's training, its metrics, and the resources that its pods use."""
    now = SystemClock().now()
    with scope.job(asked) as job_of:
        step("reading the job")
        job = job_of.client.get_job(job_of.name)
        usage = job_of.client.get_job_usage(job_of.name)
    reported, spent = job.status.progress, job.status.usage
    return answers.ProgressOfTraining(
        job=asked.job,
        state=job.state.word,
        summary="" if reported is None else progress_text(reported, now),
        behind="" if reported is None else behind_text(reported, now),
        training=None if reported is None else msgspec.to_builtins(reported),
        time="" if spent is None else usage_text(spent, now),
        usage=tuple(
            answers.UsageAnswer(pod=pod, cpu=round(used.cpu, 3), memory=used.memory, gpu=used.gpu)
            for pod, used in usage.items()
        ),
        curves=tuple(_curves(job_of)),
        parameters=_parameters(job_of),
    )


def _curves(job: JobOf) -> Iterator[answers.Curve]:
    if job.run is None:
        return
    for metric, points in curves_of(job.run.directory).items():
        chosen = points
        if len(points) > _CURVE_POINTS:
            last = len(points) - 1
            chosen = [points[round(number * last / (_CURVE_POINTS - 1))] for number in range(_CURVE_POINTS)]
        yield answers.Curve(metric, tuple(answers.CurvePoint(at, value) for at, value in chosen))


def _parameters(job: JobOf) -> dict[str, str]:
    results = () if job.run is None or job.run.result is None else job.run.result.jobs
    return next((result.parameters for result in results if result.name == job.name), {})


def stacks(scope: Scope, asked: arguments.TakeStacks, step: Step) -> answers.Stacks:
    """Return the present stacks of the Python threads of a job's replicas."""
    which = selection_of(asked.replica, all_replicas=asked.replica is None)
    with scope.job(asked) as job:
        if job.run is not None:
            raise run_without_stacks(asked.job, job.run)
        step("getting the stacks: a program that does not answer takes some seconds")
        replica_stacks = job.client.get_job_stacks(
            job.name, replica_type=which.replica_type, replica_index=which.replica_index
        )
    if not replica_stacks:
        raise nothing_runs(job.name, asked.replica)
    return answers.Stacks(
        job=asked.job,
        replicas=tuple(
            answers.ReplicaStack(
                replica=stacks.replica, lines=tuple(stacks.text.rstrip("\n").split("\n")), problem=stacks.problem
            )
            for stacks in replica_stacks
        ),
    )
