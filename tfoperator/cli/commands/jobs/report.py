"""`tfoperator report NAME`: why a job failed, or does not go on."""

from __future__ import annotations

import typer

from tfoperator.base.controlchars import printable
from tfoperator.cli.cluster import ArchiveDir, Context, JobName, Kubeconfig, Namespace, connect
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, print_object


def report(
    name: JobName,
    archive_dir: ArchiveDir = None,
    output: ReportOutput = ReportFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Tell why a TFJob failed or does not go on.

    The replica comes first whose end began it, with its last traceback; then those that failed likewise, what the
    others did, and every restart with its cause. Logs of pods that are gone come from the operator's log archive.
    """
    import msgspec

    from tfoperator.cli.terminal.progress import StatusLine
    from tfoperator.report import headline, report_lines

    try:
        with connect(kubeconfig, context, namespace, archive_dir=archive_dir) as client, StatusLine(f"reading {name}"):
            made = client.get_job_report(name)
    except OSError as error:
        if archive_dir is None or isinstance(error, ConnectionError):
            raise
        problem = f"the log archive {archive_dir} can't be read: {error.strerror or error}"
        raise CliError(problem, exit_code=EXIT_FAILED) from None
    if output is ReportFormat.JSON:
        print_object(msgspec.to_builtins(made), output)
        return
    lines = report_lines(made) or ["Nothing has gone wrong."]
    # A job that fails for its stall says so itself.
    if lines[0] == made.message:
        lines = lines[2:] if lines[1:2] == [""] else lines[1:]
    for line in (headline(made), "", *lines):
        typer.echo(printable(line))
