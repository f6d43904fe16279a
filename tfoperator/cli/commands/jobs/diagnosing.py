"""`tfoperator report NAME` and `stacks NAME`: show why a job failed, and the stacks of the threads of its replicas."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import typer

from tfoperator.base.controlchars import printable, without_controls
from tfoperator.cli.cluster import ArchiveDir, ClusterOptions, JobName, Replica
from tfoperator.cli.commands.jobs.logs import selection_of
from tfoperator.cli.recorded import client_of, of_run
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, print_object
from tfoperator.cli.terminal.progress import StatusLine
from tfoperator.local.run.kept import KUBECONFIG, RUNNING, KeptRun
from tfoperator.report.report import Report
from tfoperator.sdk import ReplicaStacks


def stacks(
    name: JobName,
    replica: Replica = None,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Show the stacks of the Python threads of a TFJob's replicas, to find out where a job waits.

    Under `tfoperator local up`, py-spy reads the stacks, if it is installed. Otherwise, and in a cluster, the command
    sends each program a signal; programs that report their progress by tfoperator.progress answer it. In a cluster this
    needs the right to run a command in the pods (pods/exec). For a job of `tfoperator run`, add the option
    --kubeconfig DIR/kubeconfig with the directory of the run.
    """
    kept = of_run(name, cluster)[0]
    if kept is not None:
        raise run_without_stacks(name, kept)
    which = selection_of(replica, all_replicas=replica is None)
    with cluster.connect() as client, StatusLine(f"taking stacks of {name}"):
        replica_stacks = client.get_job_stacks(name, replica_type=which.replica_type, replica_index=which.replica_index)
    if not replica_stacks:
        raise nothing_runs(name, replica)
    if output is ReportFormat.JSON:
        print_object(
            {stacks.replica: {"stacks": stacks.text, "problem": stacks.problem} for stacks in replica_stacks}, output
        )
    else:
        _show(replica_stacks)
    if all(stacks.problem for stacks in replica_stacks):
        raise typer.Exit(EXIT_FAILED)


def run_without_stacks(name: str, kept: KeptRun) -> CliError:
    """Return the error for a request of stacks by the name of a run: the request needs the run's own API server."""
    problem = "is still running in a separate control plane" if kept.state == RUNNING else "is over"
    hint = f"While a run continues: tfoperator stacks JOB --kubeconfig {kept.directory / KUBECONFIG}"
    return CliError(f"{name}: this run {problem}, so this command can't read its stacks", hint, exit_code=EXIT_FAILED)


def nothing_runs(name: str, replica: str | None) -> CliError:
    """Return the error for a job without running pods, or without running pods of `replica`."""
    which = "pod" if replica is None else "such pod"
    return CliError(f"TFJob {name} has no {which} that runs", f"See tfoperator describe {name}", exit_code=EXIT_FAILED)


def _show(replica_stacks: Sequence[ReplicaStacks]) -> None:
    """Print the stacks, then the replicas without stacks: one line for each reason, with all replicas concerned."""
    from tfoperator.report.text import names_in_short

    lacking: dict[str, list[str]] = {}
    for stacks in replica_stacks:
        if stacks.problem:
            lacking.setdefault(stacks.problem, []).append(stacks.replica)
            continue
        typer.echo(f"{stacks.replica}:")
        typer.echo(without_controls(stacks.text, keep="\n").rstrip("\n") + "\n")
    for problem, names in lacking.items():
        note(f"{names_in_short(names)}: {problem}")


def report(
    name: JobName,
    archive_dir: ArchiveDir = None,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Explain why a TFJob failed or does not make progress.

    The report begins with the replica that failed first, and its last traceback. It goes on with replicas that failed
    in the same way, the state of the others, and each restart with its cause. Logs of deleted pods come from the
    operator's log archive.
    """
    run, job = of_run(name, cluster)
    kept = (
        [result.report for result in run.result.jobs if result.report and job in ("", result.name)]
        if run and run.result
        else []
    )
    if len(kept) == 1:
        _print_report(kept[0], output)
        return
    try:
        with client_of(name, cluster, archive_dir) as (client, name), StatusLine(f"reading {name}"):
            made = client.get_job_report(name)
    except OSError as error:
        if archive_dir is None or isinstance(error, ConnectionError):
            raise
        problem = f"the log archive {archive_dir} can't be read: {error.strerror or error}"
        raise CliError(problem, exit_code=EXIT_FAILED) from None
    _print_report(made, output)


def _print_report(made: Report, output: ReportFormat) -> None:
    from tfoperator.report.text import headline, report_lines, used_lines

    if output is ReportFormat.JSON:
        print_object(msgspec.to_builtins(made), output)
        return
    lines = report_lines(made) or ["No problem was found."]
    used = used_lines(made)
    lines += ["", *used] if used else []
    # If the job failed because it stalled, its message already is the first line of the report.
    if lines[0] == made.message:
        lines = lines[2:] if lines[1:2] == [""] else lines[1:]
    for line in (headline(made), "", *lines):
        typer.echo(printable(line))
