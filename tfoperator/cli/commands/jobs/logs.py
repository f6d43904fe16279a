"""`tfoperator logs NAME`: the output of a job's replicas."""

from __future__ import annotations

import math
import sys
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.replicas.names import parse_replica_index, parse_replica_type, replica_name
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.base.controlchars import json_text, shown_line, without_controls
from tfoperator.cli.cluster import ArchiveDir, ClusterOptions, JobName, Replica
from tfoperator.cli.recorded import client_of
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import REPLICA_COLOURS, ReportFormat, ReportOutput, note, paint, uses_colour
from tfoperator.cli.terminal.progress import StatusLine
from tfoperator.cli.waiting import timeout_seconds
from tfoperator.kube.views.objects import Pod
from tfoperator.sdk import LogLine, ReplicaLog
from tfoperator.sdk.states import ReplicaFilter, waiting_reason


def logs(
    name: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new lines until the job has ended.")] = False,
    all_replicas: Annotated[bool, typer.Option("--all-replicas", "-a", help="Show the logs of every replica.")] = False,
    replica: Replica = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Show the log of the run before the container's last restart.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", help="Show only this number of lines at the end of each log.", min=0)
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Show only lines that are at most this old, e.g. 30s or 1h.")
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Begin each line with the time at which it was written.")
    ] = False,
    container: Annotated[
        str, typer.Option("--container", "-c", help="Container whose log is shown. Default: tensorflow.")
    ] = "",
    archive_dir: ArchiveDir = None,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Show the logs of a TFJob's replicas, by default only of the chief, or, without a chief, of worker 0.

    With -f the output continues through restarts until the job has ended. With more than one replica, each line begins
    with the replica's name. Logs of deleted pods come from the operator's log archive, if this machine can read it; a
    line on stderr names the pod of each such log.
    """
    if follow and previous:
        raise CliError("the log of a previous run can't be followed: leave out either -f or --previous")
    selection = selection_of(replica, all_replicas=all_replicas)
    wanted: dict[str, Any] = {
        "container": container,
        "tail_lines": tail,
        "since_seconds": None if since is None else math.ceil(timeout_seconds(since, "--since")),
        "timestamps": timestamps,
        **msgspec.structs.asdict(selection),
    }
    printer = LinePrinter(output, with_prefix=not selection.single)
    with client_of(name, cluster, archive_dir) as (client, job):
        if follow:
            with StatusLine() as status, client.stream_job_logs(job, on_wait=status.update, **wanted) as stream:
                for line in stream:
                    printer.line(line)
            return
        try:
            with StatusLine("reading logs"):
                replica_logs = client.get_replica_logs(job, previous=previous, **wanted)
        except OSError as error:
            problem = f"the log archive {archive_dir} can't be read: {error.strerror or error}"
            raise CliError(problem, exit_code=EXIT_FAILED) from None
    for log in replica_logs:
        if log.text is None:
            note(_missing(log.pod, container, previous=previous))
            continue
        if log.archived is not None:
            note(_origin(log) + ("; the log's lines have no times" if since or timestamps else ""))
        printer.log(log.pod, log.text)
    if not replica_logs:
        hint = f"To see what happened to them: tfoperator describe {name}"
        raise CliError(f"TFJob {job} has no such pods now", hint, exit_code=EXIT_FAILED)
    if all(log.text is None for log in replica_logs):
        raise typer.Exit(EXIT_FAILED)


def selection_of(replica: str | None, *, all_replicas: bool) -> ReplicaFilter:
    """Return the replicas that `--replica` and `--all-replicas` select.

    By default, only the chief is selected, or worker 0 if the job has no chief. Raises CliError if both options are
    given, or if `--replica` names no replica type.
    """
    if replica is None:
        return ReplicaFilter(is_master=not all_replicas)
    if all_replicas:
        raise CliError("--replica and --all-replicas can't be used together: leave out one of them")
    kind, _, number = replica.partition("-")
    replica_type, index = parse_replica_type(kind), parse_replica_index(number)
    if replica_type is None or (number and index is None) or replica.endswith("-"):
        raise CliError(
            f"--replica {replica}: must have the form worker-1 or worker; the types are {', '.join(ReplicaType)}"
        )
    return ReplicaFilter(replica_type=replica_type, replica_index=index)


class LinePrinter:
    """Writes log lines, and removes their control characters and escape sequences, except those for colours.

    The lines are untrusted. Control characters are removed also if stdout is a pipe or a file, because another program
    (`grep`, `less -R`) may show the output on a terminal later. With the output format JSON, nothing is removed.
    """

    def __init__(self, output: ReportFormat, *, with_prefix: bool) -> None:
        self._json = output is ReportFormat.JSON
        self._with_prefix = with_prefix
        self._colour = uses_colour()
        self._colours: dict[str, str] = {}

    def line(self, line: LogLine) -> None:
        """Print a line that was just written."""
        sys.stdout.write(self._formatted(line.pod, line.replica, line.text))
        sys.stdout.flush()

    def log(self, pod: Pod, text: str) -> None:
        """Print a pod's whole log."""
        if not self._with_prefix and not self._json:
            sys.stdout.write(without_controls(text, keep="\n\r"))
            return
        lines = text.removesuffix("\n").split("\n") if text else []
        sys.stdout.writelines(self._formatted(pod.metadata.name, replica_name(pod), line) for line in lines)

    def _formatted(self, pod: str, replica: str, text: str) -> str:
        if self._json:
            return json_text({"pod": pod, "replica": replica, "text": text}) + "\n"
        if not self._with_prefix:
            return without_controls(text, keep="\r") + "\n"
        colour = self._colours.setdefault(replica, REPLICA_COLOURS[len(self._colours) % len(REPLICA_COLOURS)])
        return f"{paint(f'[{replica}]', colour, enabled=self._colour)} {without_controls(shown_line(text))}\n"


def _missing(pod: Pod, container: str, *, previous: bool) -> str:
    status = pod.status
    names = [entry.name for entry in (*status.init_container_statuses, *status.container_statuses)]
    if container and names and container not in names:
        return f"{replica_name(pod)} has no container {container}; it has {', '.join(names)}"
    if previous:
        return f"{replica_name(pod)} has no log of a previous run: its container has not been restarted"
    if status.phase in ("Succeeded", "Failed"):
        return f"{replica_name(pod)} has ended, and its log does not exist any more"
    reason = waiting_reason(pod)
    return f"{replica_name(pod)} has not started yet" + (f" ({reason})" if reason else "")


def _origin(log: ReplicaLog) -> str:
    """Return the line that is printed before an archived log.

    This line names the pod, so that users don't take the archived log for the log of a running pod.
    """
    pod, container = log.archived, log.container
    assert pod is not None
    assert container is not None
    when = pod.archived.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    end = (
        f", exit code {container.exit_code}" if container.exit_code is not None else ", while the container was running"
    )
    lost = f"; the first {container.dropped} bytes of the log were not kept" if container.dropped else ""
    incomplete = f"; the log is not complete: {container.problem}" if container.problem else ""
    return f"{log.replica}: from the archive, pod {pod.pod}, kept at {when}{end}{lost}{incomplete}"
