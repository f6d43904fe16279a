"""`tfoperator logs NAME`: what a job's replicas print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tfoperator.api.names import parse_replica_index, parse_replica_type
from tfoperator.api.v1.types import ReplicaType
from tfoperator.cli.cluster import Context, Kubeconfig, Namespace, connect
from tfoperator.cli.errors import EXIT_FAILED, CliError
from tfoperator.cli.output import ReportFormat, ReportOutput, note, paint, uses_colour
from tfoperator.cli.progress import Progress

if TYPE_CHECKING:
    from tfoperator.kube.objects import Pod
    from tfoperator.sdk import LogLine, ReplicaLog, TFJobClient

__all__ = ["logs", "register"]

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")


class _Selection(msgspec.Struct, frozen=True):
    """Which pods, by the SDK's filters."""

    is_master: bool
    replica_type: str | None = None
    replica_index: int | None = None

    @property
    def is_single(self) -> bool:
        return self.is_master or self.replica_index is not None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("logs")(logs)


def logs(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    all_replicas: Annotated[bool, typer.Option("--all-replicas", "-a", help="Of every replica.")] = False,
    replica: Annotated[
        str | None,
        typer.Option("--replica", "-r", help="Of this one (worker-1), or of this type (worker).", metavar="REPLICA"),
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the run before the container's last restart.")
    ] = False,
    tail: Annotated[int | None, typer.Option("--tail", help="Only so many last lines.", min=0)] = None,
    container: Annotated[str, typer.Option("--container", "-c", help="Default: tensorflow.")] = "",
    archive_dir: Annotated[
        Path | None,
        typer.Option(
            "--archive-dir",
            envvar="TFOPERATOR_ARCHIVE_DIR",
            help="The operator's log archive, for pods that were deleted.",
            metavar="DIR",
        ),
    ] = None,
    output: ReportOutput = ReportFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what replicas of a TFJob print, by default the one that leads it (the chief, else worker 0).

    With -f it goes on through restarts and until the job has ended. With more than one replica each line says whose it
    is. Logs of pods that are gone come from the operator's log archive, where it can be seen; they are announced.
    """
    if follow and previous:
        raise CliError("a previous run has ended, so it can't be followed: leave out either -f or --previous")
    selection = _selection(replica, all_replicas=all_replicas)
    printer = _Printer(output, with_prefix=not selection.is_single)
    with connect(kubeconfig, context, namespace, archive_dir=archive_dir) as client:
        if follow:
            _follow(client, name, selection, container, tail, printer)
            return
        try:
            with Progress("reading logs"):
                found = client.get_replica_logs(
                    name,
                    None,
                    selection.is_master,
                    selection.replica_type,
                    selection.replica_index,
                    container,
                    previous=previous,
                    tail_lines=tail,
                )
        except OSError as error:
            problem = f"the log archive {archive_dir} can't be read: {error.strerror or error}"
            raise CliError(problem, exit_code=EXIT_FAILED) from None
    for log in found:
        if log.text is None:
            note(_missing(log.pod, previous=previous))
            continue
        if log.archived is not None:
            note(_origin(log))
        printer.log(log.pod, log.text)
    if not found:
        raise CliError(f"TFJob {name} has no such pods (any more)", _advice(name), exit_code=EXIT_FAILED)
    if all(log.text is None for log in found):
        raise typer.Exit(EXIT_FAILED)


def _selection(replica: str | None, *, all_replicas: bool) -> _Selection:
    if replica is None:
        return _Selection(is_master=not all_replicas)
    if all_replicas:
        raise CliError("--replica and --all-replicas exclude each other")
    kind, _, number = replica.partition("-")
    replica_type, index = parse_replica_type(kind), parse_replica_index(number)
    if replica_type is None or (number and index is None) or replica.endswith("-"):
        raise CliError(f"--replica {replica}: write it like worker-1 or worker; types are {', '.join(ReplicaType)}")
    return _Selection(is_master=False, replica_type=replica_type, replica_index=index)


def _follow(
    client: TFJobClient, name: str, selection: _Selection, container: str, tail: int | None, printer: _Printer
) -> None:
    with (
        Progress() as progress,
        client.stream_job_logs(
            name,
            None,
            selection.is_master,
            selection.replica_type,
            selection.replica_index,
            container,
            tail_lines=tail,
            on_wait=progress.update,
        ) as stream,
    ):
        for line in stream:
            printer.line(line)


class _Printer:
    """Writes lines as they are: what a container prints is no markup, and its own colours are its own business."""

    def __init__(self, output: ReportFormat, *, with_prefix: bool) -> None:
        self._json = output is ReportFormat.JSON
        self._with_prefix = with_prefix
        self._colour = uses_colour()
        self._colours: dict[str, str] = {}

    def line(self, line: LogLine) -> None:
        """One that was just written."""
        sys.stdout.write(self._formatted(line.pod, line.replica, line.text))
        sys.stdout.flush()

    def log(self, pod: Pod, text: str) -> None:
        """All of a pod's."""
        from tfoperator.sdk.states import replica_name

        if not self._with_prefix and not self._json:
            sys.stdout.write(text)
            return
        lines = text.removesuffix("\n").split("\n") if text else []
        sys.stdout.writelines(self._formatted(pod.metadata.name, replica_name(pod), line) for line in lines)

    def _formatted(self, pod: str, replica: str, text: str) -> str:
        if self._json:
            return json.dumps({"pod": pod, "replica": replica, "text": text}, ensure_ascii=False) + "\n"
        if not self._with_prefix:
            return text + "\n"
        colour = self._colours.setdefault(replica, _COLOURS[len(self._colours) % len(_COLOURS)])
        # A progress bar rewrites its line by carriage returns: what it shows last is what a person would see.
        shown = text.rstrip("\r").rpartition("\r")[2]
        return f"{paint(f'[{replica}]', colour, enabled=self._colour)} {shown}\n"


def _missing(pod: Pod, *, previous: bool) -> str:
    from tfoperator.sdk.states import replica_name, waiting_reason

    if previous:
        return f"{replica_name(pod)} has no previous run"
    reason = waiting_reason(pod)
    return f"{replica_name(pod)} has not started yet" + (f" ({reason})" if reason else "")


def _origin(log: ReplicaLog) -> str:
    """What an archived log is of: nobody should take it for that of a pod that runs."""
    pod, container = log.archived, log.container
    assert pod is not None
    assert container is not None
    when = pod.archived.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    end = "" if container.exit_code is None else f", exit code {container.exit_code}"
    lost = f"; its first {container.dropped} bytes were not kept" if container.dropped else ""
    incomplete = f"; not complete: {container.problem}" if container.problem else ""
    return f"{log.replica}: from the archive, pod {pod.pod} deleted at {when}{end}{lost}{incomplete}"


def _advice(name: str) -> str:
    return f"What became of them: tfoperator describe {name}"
