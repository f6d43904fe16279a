"""`tfoperator pipeline run|stop|clean`: the commands that change something.

Exit codes of `run`: 0 every step has succeeded, 1 a step has failed permanently or standard output can't be written, 75
a retry may help, 2 the input is invalid, 130 and 143 interrupted.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.commands.launch import EXIT_RETRYABLE, Launching
from tfoperator.cli.commands.pipeline.opening import (
    DEFAULT_HOME,
    FileArgument,
    HomeOption,
    ParamOption,
    RunArgument,
    StepLaunching,
    in_words,
    opened,
)
from tfoperator.cli.option_groups import single_values
from tfoperator.cli.page import checked_home, served_page
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_INTERRUPTED, CliError, output_lost
from tfoperator.cli.terminal.interruptions import Interruptions, in_thread
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, print_object, say

if TYPE_CHECKING:
    from tfoperator.cli.views.pipeline_progress import RunDisplay
    from tfoperator.pipeline import PipelineResult, PipelineRunner
    from tfoperator.pipeline.pipeline_file import LoadedPipeline


class Containers(StrEnum):
    """The value of `--containers`: the platform of containers that have no platform config."""

    DOCKER = "docker"
    PROCESS = "process"
    KUBERNETES = "kubernetes"


def run(
    file: FileArgument,
    params: ParamOption = None,
    resume: Annotated[
        str,
        typer.Option(
            "--resume", help="Continue a run: give its id, or the word latest for the newest run.", metavar="RUN"
        ),
    ] = "",
    run_id: Annotated[
        str,
        typer.Option(
            "--run-id",
            help="Continue the run with this id. If the run does not exist, start a run with this id.",
            metavar="ID",
        ),
    ] = "",
    containers: Annotated[
        Containers,
        typer.Option("--containers", help="Platform that runs the containers of steps without a platform config."),
    ] = Containers.DOCKER,
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--launcher",
            help="Your own launcher class, package.module:Class. It launches each step that it can launch; the "
            "built-in launchers launch the other steps.",
            metavar="MODULE:CLASS",
        ),
    ] = None,
    parallel: Annotated[
        int, typer.Option("--parallel", min=1, help="Maximum number of steps that run at the same time.")
    ] = 4,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be launched, and launch nothing.")
    ] = False,
    pipeline_root: Annotated[
        str,
        typer.Option(
            "--pipeline-root",
            help="For a pipeline file of Kubeflow Pipelines: directory or URL of the outputs, instead of its "
            "defaultPipelineRoot.",
            metavar="DIR",
        ),
    ] = "",
    allow_privileged: Annotated[
        bool,
        typer.Option(
            "--allow-privileged",
            help="Allow the containers of a pipeline file of Kubeflow Pipelines to mount folders of this machine, to "
            "use its network, or to be privileged.",
        ),
    ] = False,
    manifests: Annotated[
        list[str] | None,
        typer.Option(
            "--manifest",
            help="A file with the Secrets and ConfigMaps that a pipeline file of Kubeflow Pipelines names, for steps "
            "on this machine.",
            metavar="FILE",
        ),
    ] = None,
    launching: StepLaunching = StepLaunching(),
    ui: Annotated[bool, typer.Option("--ui", help="Serve a page that shows the run while it runs.")] = False,
    home: HomeOption = DEFAULT_HOME,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Run a pipeline: its steps in order, independent steps in parallel. Each step is recorded.

    Exit code 0: all steps succeeded. 1: a step failed, and a retry can't help. 75: a step failed, and a retry may help.
    2: bad input. 130, 143: interrupted.
    """
    if resume and run_id:
        raise CliError(
            "give either --resume, which continues an existing run, or --run-id, which starts the run if it does not "
            "exist"
        )
    with in_words():
        from tfoperator.cli.views.pipeline_progress import RunDisplay
        from tfoperator.launcher import named_launcher
        from tfoperator.local.runtime.process.mounts.mounted_command import mounted_command
        from tfoperator.pipeline import AS_PROCESSES, ON_DOCKER, ON_KUBERNETES, PipelineRunner

        launchers = {"docker": ON_DOCKER, "process": AS_PROCESSES, "kubernetes": ON_KUBERNETES}

        loaded = load(file, single_values("--param", params), cache=launching.cache)
        loaded = _trusted(loaded, file, containers.value, root=pipeline_root, privileged=allow_privileged)
        display = RunDisplay(logs_to_stdout=output is ReportFormat.TEXT)
        runner = PipelineRunner(
            [*map(named_launcher, own or ()), *launchers[containers.value]],
            loaded.platform_configs(launching.platform, containers.value),
            home=home,
            parallel=parallel,
            context=dataclasses.replace(launching.context(cluster), mount=mounted_command),
            listener=display,
            objects=_objects(manifests or ()),
        )
        if dry_run:
            for step, shown in runner.check(loaded.pipeline).items():
                typer.echo(f"# {step}\n{shown}---")
            return
        options: dict[str, Any] = {
            "resume": resume,
            "run_id": run_id,
            "source": str(Path(file).absolute()),
            "parameters": loaded.parameters,
            "place": cluster.place(),
        }

        def show(url: str) -> None:
            note(f"the page (the link works once, for one browser): {url}")

        page = nullcontext() if not ui else served_page(None, show, pipelines=checked_home(home))
        with page:
            code, result = _run(runner, display, loaded, options)
    from tfoperator.cli.views.pipelines import result_lines, result_report

    if output is ReportFormat.JSON:
        print_object(result_report(result), output)
    else:
        for line in result_lines(result):
            note(line)
    if code == EXIT_RETRYABLE or result.state in ("interrupted", "cancelled"):
        where = f" --containers {containers.value}" if containers is not Containers.DOCKER else ""
        again = f"tfoperator pipeline run {file}{where} --resume {result.run_id}"
        note(f"To continue the run: {again}, with the same parameters and options")
    if display.stream.error is not None:
        stopped = ": the run was stopped" if result.state == "cancelled" else ""
        hint = f"To see the log of a step: tfoperator pipeline logs {result.run_id} STEP"
        raise output_lost(display.stream.error, stopped, hint, exit_code=code or EXIT_FAILED)
    raise typer.Exit(code)


def _objects(manifests: Sequence[str]) -> Any:
    """Return the data of the Secrets and ConfigMaps in these files.

    Raises CliError if a file can't be read, and ComponentError if a manifest is invalid or has other objects.
    """
    from tfoperator.pipeline.kfp.machine_options import read_objects

    try:
        return read_objects(manifests)
    except OSError as error:
        raise CliError(f"{error.filename}: {error.strerror}") from None


def stop(
    run: RunArgument,
    home: HomeOption = DEFAULT_HOME,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Stop the steps of a run whose process (pipeline run) has died. Stop a living process by Ctrl-C or SIGTERM."""
    with opened(home) as (place, store):
        from tfoperator.pipeline import stop_run

        record = place.find(store, run)
        if record.state != "interrupted":
            note(f"run {record.id} is {record.state}, so there is nothing to stop")
            if record.state == "running":
                raise typer.Exit(EXIT_FAILED)
            return
        stopped = stop_run(place, store, record, Launching().context(cluster, tell=note), wait=True)
        say(f"run {stopped.id} is {stopped.state}")


def clean(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids of the runs to remove. Default: all ended runs except the newest runs of each pipeline (--keep).",
        ),
    ] = None,
    keep: Annotated[
        int,
        typer.Option("--keep", min=0, help="Number of newest runs of each pipeline that are kept if no RUN is given."),
    ] = 10,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Also remove the runs' outputs that no other run uses.")
    ] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Remove the records and logs of runs that have ended. The lineage of their artifacts is kept."""
    with opened(home) as (place, store):
        from tfoperator.pipeline.runner.leftovers import clean_run, old_runs

        wanted = [place.find(store, word) for word in runs] if runs else old_runs(place, store, keep)
        for record in wanted:
            if not record.over:
                raise CliError(
                    f"run {record.id} is {record.state}", f"Stop the run first: tfoperator pipeline stop {record.id}"
                )
        for record in wanted:
            try:
                removed = clean_run(place, store, record, outputs=outputs)
            except OSError as error:
                hint = "The record of the run is kept. Run the command again when the outputs can be removed."
                raise CliError(
                    f"the outputs of run {record.id} can't be removed: {error}", hint, exit_code=EXIT_FAILED
                ) from None
            say(f"run {record.id} removed" + (f", and {len(removed)} outputs" if removed else ""))
        if not wanted:
            note(f"no pipeline has more than {keep} runs, so nothing is removed")


def _trusted(loaded: LoadedPipeline, file: str, containers: str, *, root: str, privileged: bool) -> LoadedPipeline:
    """Check the access of a pipeline to this machine. Return the pipeline.

    Unless `root` is "", it becomes the pipeline root (the place of the outputs). A pipeline in Python sets its own
    root: for such a pipeline, the function raises CliError if `root` is not "".

    A file of Kubeflow Pipelines may come from another author. So the function raises CliError if the outputs are
    outside of the current folder and `root` is "", or if the containers need special access to this machine and
    `privileged` is false. A pipeline in Python is a program of the user, so its access is not checked.
    """
    from tfoperator.pipeline.graph import Graph
    from tfoperator.pipeline.kfp.demands import foreign_root, privileges

    graph = loaded.pipeline
    if not isinstance(graph, Graph):
        if root:
            raise CliError(
                "--pipeline-root is for a file of Kubeflow Pipelines; a Python file sets its own pipeline_root"
            )
        return loaded
    here = Path.cwd()
    if root:
        graph = msgspec.structs.replace(graph, root=root.rstrip("/") or "/")
        loaded = msgspec.structs.replace(loaded, pipeline=graph)
    elif place := foreign_root(graph, here):
        raise CliError(
            f"{file}: its outputs would be written to {place}, which is not below the current folder",
            f"Nothing was launched. To allow this place: --pipeline-root {shlex.quote(place)}",
        )
    asked = [] if privileged else privileges(loaded.platforms, containers, here)
    if asked:
        raise CliError(
            "\n".join([f"{file}: its containers need more access to this machine than is allowed:", *asked]),
            "Nothing was launched. To allow all of this access: --allow-privileged",
        )
    return loaded


def load(
    file: str,
    params: dict[str, str],
    *,
    cache: bool | None,
    blank_is_left_out: bool = False,
    hint: str = "Nothing was launched.",
) -> LoadedPipeline:
    """Return the pipeline from a file. If `cache` is not None, it replaces the pipeline's `enable_cache`.

    With `blank_is_left_out`, an optional parameter with an empty text counts as omitted. Raises CliError, with this
    `hint`, if the file can't be opened. Raises ComponentError if the file or a parameter is invalid.
    """
    from tfoperator.pipeline.pipeline_file import load_pipeline_file

    try:
        loaded = load_pipeline_file(file, params, blank_is_left_out=blank_is_left_out)
    except OSError as error:
        raise CliError(f"{file}: {error.strerror}", hint) from None
    if cache is None:
        return loaded
    pipeline = msgspec.structs.replace(loaded.pipeline, enable_cache=cache)
    return msgspec.structs.replace(loaded, pipeline=pipeline)


def _run(
    runner: PipelineRunner, display: RunDisplay, loaded: LoadedPipeline, options: dict[str, Any]
) -> tuple[int, PipelineResult]:
    from tfoperator.pipeline import PipelineCancelled, PipelineFailed

    interruptions = Interruptions(in_thread(runner.cancel))
    display.stream.when_lost(interruptions.hang_up)
    with interruptions, display:
        try:
            return 0, runner.run(loaded.pipeline, **options)
        except PipelineCancelled as error:
            if interruptions.signals:
                return 128 + interruptions.signals[-1], error.result
            return EXIT_INTERRUPTED if display.stream.error is None else EXIT_FAILED, error.result
        except PipelineFailed as error:
            return EXIT_RETRYABLE if error.retryable else EXIT_FAILED, error.result
