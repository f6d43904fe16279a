"""`tfoperator run FILE ...`: run TFJobs on this machine, without a cluster, and watch them.

The command validates the manifests first. Only after this it imports the control plane and the console view, which
takes a second. So the command reports an error in a manifest without this delay.
"""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tfoperator.api.loading import Manifest, to_yaml
from tfoperator.api.validation.job import STOCK_PARAMETER_SERVER
from tfoperator.base.controlchars import printable
from tfoperator.cli.manifests import check_runnable, checked, checked_manifests, is_tfjob
from tfoperator.cli.page import LastingPage
from tfoperator.cli.program_job import ProgramJob
from tfoperator.cli.program_options import LocalPodOptions, ProgramOptions, check_checkpoints, program_job
from tfoperator.cli.run_directory import execute, keep_records, logging_to, make_run_dir
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_USAGE, CliError, output_lost
from tfoperator.cli.terminal.interruptions import Interruptions
from tfoperator.cli.terminal.output import ReportFormat, note
from tfoperator.cli.terminal.stdio import FragileStream
from tfoperator.cli.waiting import timeout_seconds
from tfoperator.kube.protocol.errors import ApiError
from tfoperator.local.run.kept import LOG
from tfoperator.local.runtime.selection import RuntimeOptions
from tfoperator.report.facts import Typed

if TYPE_CHECKING:
    from tfoperator.local.controlplane import PageMaker
    from tfoperator.local.run.container_output import RunListener
    from tfoperator.local.run.job_run import JobRun
    from tfoperator.local.run.mlflow_tracking import MlflowTracking
    from tfoperator.local.run.records import RunRecords
    from tfoperator.local.run.results import RunResult


class Tracker(StrEnum):
    """The value of `--track`: where the run is also recorded."""

    MLFLOW = "mlflow"


def run(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE ... [-- ARGS]",
            help="Manifests (YAML or JSON); - is stdin. Or one Python program; its own arguments follow after --.",
        ),
    ],
    pods: LocalPodOptions = LocalPodOptions(),
    logs_dir: Annotated[
        Path | None,
        typer.Option(
            "--logs-dir",
            help="Folder for the run's logs and events; by default a new folder in .tfoperator/runs.",
            metavar="DIR",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the pods' emptyDir volumes after the run.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Stop after this time, e.g. 90s or 1h30m (exit code 124).")
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace for objects whose manifest names no namespace.")
    ] = "default",
    ui: Annotated[bool, typer.Option("--ui", help="Serve a page that shows the jobs while they run.")] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show each step of the run's start, and the log lines that TensorFlow itself writes.",
        ),
    ] = False,
    output: Annotated[
        ReportFormat,
        typer.Option(
            "--output",
            "-o",
            help="With `-o json`, the command prints the result on stdout, and everything else on stderr.",
        ),
    ] = ReportFormat.TEXT,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            "--workdir", help="Directory in which processes start; by default the current directory.", metavar="DIR"
        ),
    ] = None,
    track: Annotated[
        Tracker | None,
        typer.Option("--track", help="At the end, also record parameters, metrics and the result in this tracker."),
    ] = None,
    program: ProgramOptions = ProgramOptions(),
) -> None:
    """Run TFJobs on this machine, without a cluster: from manifests, or from a program (run train.py --workers 2).

    Each container runs as a process, or as a Docker container with --runtime docker. The first Ctrl-C stops the jobs
    gracefully, the second stops them at once.

    Exit code 0: all jobs succeeded. 1: a job failed. 2: bad input. 124: the time limit is over. 130: interrupted.
    """
    limit = timeout_seconds(timeout) if timeout else None
    Path.cwd()  # raises FileNotFoundError if the current directory was removed; the command line reports this
    chosen = pods.chosen(work_dir, keep_volumes=keep)
    _check_work_dir(chosen)
    job = program_job(files, program, chosen)
    if job is not None and program.emit_yaml:
        typer.echo(to_yaml([manifest.obj for manifest in _of_program(job, files[0])]), nl=False)
        raise typer.Exit
    if job is None:
        manifests = _load(files)
        _say_where_processes_start(files, chosen)
    else:
        manifests = _of_program(job, files[0])
        check_checkpoints(job, program, namespace)
    check_runnable(manifests, namespace)
    tracking = None if track is None else _tracking()
    run_dir = make_run_dir(logs_dir, _jobs(manifests)[0])

    def engine(view: RunListener, make_page: PageMaker | None) -> JobRun:
        from tfoperator.local.run.job_run import JobRun

        return JobRun(
            [manifest.obj for manifest in manifests],
            view,
            run_dir=run_dir,
            namespace=namespace,
            timeout=limit,
            pods=chosen,
            make_page=make_page,
            typed=Typed.MANIFEST if job is None else Typed.PROGRAM,
        )

    names = ", ".join(_jobs(manifests))
    raise typer.Exit(_execute(engine, names, run_dir, output, page=ui, tracking=tracking, verbose=verbose))


def _tracking() -> MlflowTracking:
    """Return the object that writes to MLflow.

    Call this function before the job starts, so that the user learns before the training if MLflow is missing
    (CliError).
    """
    from tfoperator.local.run.mlflow_tracking import MlflowTracking, TrackingError

    try:
        return MlflowTracking()
    except TrackingError as error:
        raise CliError(f"--track: {error}", "Nothing was started.", exit_code=EXIT_FAILED) from None


def _track(tracking: MlflowTracking, result: RunResult, records: RunRecords) -> None:
    from tfoperator.local.run.mlflow_tracking import TrackingError

    try:
        tracking.write(result, records)
        note(f"recorded in MLflow: {tracking.place}, experiment {tracking.experiment}")
    except TrackingError as error:  # the job has ended, and its result matters more
        note(f"warning: a part of the run could not be recorded in MLflow: {error}")


def _check_work_dir(pods: RuntimeOptions) -> None:
    if pods.work_dir is None:
        return
    if pods.in_containers:
        raise CliError(
            "--workdir can't be used with containers", "Set workingDir in the manifest or in the image instead."
        )
    if not pods.work_dir.is_dir():
        raise CliError(f"--workdir: {pods.work_dir}: is not a directory")


def _say_where_processes_start(files: list[str], pods: RuntimeOptions) -> None:
    """Print a note if a manifest is not in the current directory, in which the processes start.

    Relative paths in the manifest start from the current directory. Print nothing if pods run in Docker containers, or
    if the user has chosen the directory (`--workdir`).
    """
    if pods.work_dir is not None or pods.in_containers:
        return
    here = Path.cwd()
    # A shell's <(command) is a pipe, which has no directory to start in.
    elsewhere = {Path(file).resolve().parent for file in files if file != "-" and Path(file).is_file()} - {here}
    for folder in sorted(elsewhere):
        there = shlex.quote(str(folder))
        note(
            f"note: processes start in the current directory, {here}; to start them in the folder of the manifest, "
            f"use --workdir {there}"
        )


def _of_program(job: ProgramJob, file: str) -> list[Manifest]:
    """Return the manifest of a program's job, after checking it. Raises CliError if the job is not valid."""
    return checked([Manifest(job.manifest(), file, 1)], file, consequence="Nothing was started.", exit_code=EXIT_USAGE)


def _load(files: list[str]) -> list[Manifest]:
    """Return the checked objects of the files.

    Objects of kinds that a local run does not use are left out with a warning. Raises CliError if a TFJob is not valid,
    or if there is none.
    """
    from tfoperator.local.manifest_resources import KNOWN, resource_of

    usable: list[Manifest] = []
    idle = (STOCK_PARAMETER_SERVER,)  # the operator of this run has an image for a parameter server without a template
    for manifest in checked_manifests(files, consequence="Nothing was started.", exit_code=EXIT_USAGE, idle=idle):
        if is_tfjob(manifest.obj) or resource_of(manifest.obj) is not None:
            usable.append(manifest)
            continue
        kinds = ", ".join(sorted(kind for _, kind in KNOWN))
        what = f"{manifest.obj.get('kind')} ({manifest.obj.get('apiVersion')})"
        note(f"{manifest.place()}: warning: {what} is skipped: a local run uses {kinds} only")
    return usable


def _jobs(manifests: list[Manifest]) -> list[str]:
    jobs = [manifest.obj["metadata"] for manifest in manifests if is_tfjob(manifest.obj)]
    return [str(meta.get("name") or meta.get("generateName") or "job") for meta in jobs]


def _print_json(result: RunResult, run_dir: Path) -> CliError | None:
    """Print the result on standard output. If this fails, return an error that names the file with the result.

    The function never raises an error of a stream.
    """
    stream = FragileStream(sys.stdout)
    print(json.dumps(msgspec.to_builtins(result), indent=2), file=stream, flush=True)
    if stream.error is None:
        return None
    kept = run_dir / "result.json"
    return CliError(
        f"can't write the result to standard output ({stream.error.strerror}), but the run ended: {result.outcome}",
        f"The result is in {kept}." if kept.exists() else f"The part of the result that was written is in {run_dir}.",
        exit_code=EXIT_FAILED,
    )


def _stay(page: LastingPage, run_dir: Path) -> None:
    """Serve the page of an ended run. Return after Ctrl-C."""
    until = threading.Event()
    try:
        with page.ended(run_dir), Interruptions(until.set):
            note("This run has ended. The page of the run is served until you press Ctrl-C.")
            until.wait()
    except (OSError, ValueError) as error:
        note(f"warning: the page can no longer show the run: {error}")
    finally:
        page.close()


def _exit_code(result: RunResult, interruptions: Interruptions, lost: OSError | None) -> int:
    if interruptions.signals and result.outcome == "Interrupted":
        return 128 + interruptions.signals[-1]
    return result.exit_code if lost is None else EXIT_FAILED


def _execute(
    make_engine: Callable[[RunListener, PageMaker | None], JobRun],
    names: str,
    run_dir: Path,
    output: ReportFormat,
    *,
    page: bool,
    tracking: MlflowTracking | None,
    verbose: bool,
) -> int:
    with ExitStack() as until_reported:
        with Interruptions() as interruptions:  # also handles a Ctrl-C during the imports below, which take a second
            until_reported.enter_context(logging_to(log := run_dir / LOG))
            from tfoperator.cli.views.run.choice import make_view
            from tfoperator.cli.views.run.summary import summary
            from tfoperator.local.run.lifecycle import ControlPlaneFailed
            from tfoperator.local.run.results import RunOutcome
            from tfoperator.local.runtime.protocol import RuntimeUnavailable

            stream = FragileStream(sys.stderr if output is ReportFormat.JSON else sys.stdout)
            view = make_view(stream, verbose=verbose)
            stays = page and sys.stdout.isatty()
            lasting = LastingPage(stays=stays)
            engine = make_engine(view, lasting.make if page else None)
            interruptions.pass_on(engine.interrupt)
            result: RunResult | None = None
            stream.when_lost(interruptions.hang_up)
            try:
                view.say("tfoperator", f"starting {names}; logs go to {run_dir}")
                result = execute(run_dir, engine)
            except RuntimeUnavailable as error:
                raise CliError(str(error), "Nothing was started.") from None
            except ApiError as error:
                raise CliError(f"the manifest was refused: {error}", "All started jobs were stopped.") from None
            except ControlPlaneFailed as error:
                raise CliError(f"the operator failed: {error}", f"Its log is {log}.", exit_code=EXIT_FAILED) from None
            finally:
                view.close()
                stays = stays and result is not None and result.outcome is not RunOutcome.INTERRUPTED
                if not stays:
                    lasting.close()
        try:
            print("\n".join(printable(line) for line in summary(result)), file=stream, flush=True)
        finally:
            result = msgspec.structs.replace(result, exit_code=_exit_code(result, interruptions, stream.error))
            keep_records(run_dir, engine, result)
        if tracking is not None:
            _track(tracking, result, engine.ended_records(result))
    if stays:
        _stay(lasting, run_dir)
    unwritten = _print_json(result, run_dir) if output is ReportFormat.JSON else None
    if result.exit_code > 128:  # by a signal
        return result.exit_code
    if unwritten is not None:
        keep_records(run_dir, engine, msgspec.structs.replace(result, exit_code=EXIT_FAILED))
        raise unwritten
    if stream.error is not None:
        stopped = ": the job was stopped" if result.outcome is RunOutcome.INTERRUPTED else ""
        raise output_lost(stream.error, stopped, f"Its logs are in {run_dir}.")
    return result.exit_code
