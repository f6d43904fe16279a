"""`tfoperator pipeline step|finish`: orchestrators run `step` in a pod for each step, and `finish` in a pod at the end.

Exit codes of `step`: 0 success, or the result of an earlier success is reused; 1 permanent failure; 75 a retry may
help; 2 the input is invalid; 130 and 143 interrupted. An orchestrator retries after every failure except the exit codes
1 and 2.
"""

from __future__ import annotations

import base64
import binascii
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
)
from tfoperator.cli.commands.pipeline.running import load
from tfoperator.cli.option_groups import single_values
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_INTERRUPTED, CliError
from tfoperator.cli.terminal.interruptions import Interruptions, in_thread
from tfoperator.cli.terminal.output import note, say

if TYPE_CHECKING:
    from tfoperator.pipeline import StepView
    from tfoperator.pipeline.pipeline_file import LoadedPipeline


def step(
    file: FileArgument,
    step: Annotated[str, typer.Argument(metavar="STEP", help="Name of a step of the run.")],
    run_id: Annotated[
        str,
        typer.Option("--run-id", help="Id of the run. The first step that is launched with this id creates the run."),
    ],
    orchestrator: Annotated[
        str, typer.Option("--orchestrator", help="Name of the orchestrator that decides the order of the steps.")
    ] = "other",
    params: ParamOption = None,
    encoded: Annotated[
        list[str] | None,
        typer.Option("--encoded-param", help="Value of a parameter in base64.", metavar="NAME=BASE64"),
    ] = None,
    steps: Annotated[
        str,
        typer.Option(
            "--steps",
            help="Digest of the steps, from `pipeline compile`. If the digest of the steps in FILE differs, the launch "
            "is refused.",
            metavar="DIGEST",
        ),
    ] = "",
    launching: StepLaunching = StepLaunching(),
    home: HomeOption = DEFAULT_HOME,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Launch a step of a run in which an orchestrator, such as Argo or Airflow, decides the order of the steps.

    Exit code 0: it succeeded. 1: it failed, and a retry can't help. 75: it failed, and a retry may help. 2: bad input.
    130, 143: interrupted.
    """
    with in_words(failed=EXIT_RETRYABLE):
        from tfoperator.cli.views.pipeline_progress import RunDisplay
        from tfoperator.pipeline import IN_CLUSTER, PipelineRunner

        given = {**single_values("--param", params), **_decoded(encoded)}
        loaded = load(file, given, cache=launching.cache, blank_is_left_out=True)
        _check_steps(file, loaded, steps)
        display = RunDisplay(logs_to_stdout=True)
        runner = PipelineRunner(
            IN_CLUSTER,
            loaded.platform_configs(launching.platform),
            home=home,
            context=launching.context(cluster),
            listener=display,
        )

        interruptions = Interruptions(in_thread(runner.cancel))
        display.stream.when_lost(interruptions.hang_up)
        with interruptions, display:
            view = runner.run_step(
                loaded.pipeline,
                step,
                run_id=run_id,
                orchestrator=orchestrator,
                source=str(Path(file).absolute()),
                parameters=loaded.parameters,
                place=cluster.place(),
            )
    raise typer.Exit(_exit_code(view, interruptions.signals))


def finish(
    run: RunArgument,
    home: HomeOption = DEFAULT_HOME,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """End a run whose steps an orchestrator has launched: stop containers that still run, and record the result."""
    with in_words(failed=EXIT_RETRYABLE):
        from tfoperator.pipeline import Home, NoSuchRun, finish_run

        with closing(Home(home)) as records, records.store() as store:
            try:
                started_run = records.find(store, run)
            except NoSuchRun:
                note(f"run {run} has not started any step, so there is nothing to end")
                return
            ended = finish_run(records, store, started_run, Launching().context(cluster, tell=note))
    say(f"run {ended.id} of {ended.pipeline}: {ended.state}" + (f": {ended.message}" if ended.message else ""))


def _decoded(given: list[str] | None) -> dict[str, str]:
    decoded: dict[str, str] = {}
    for name, value in single_values("--encoded-param", given).items():
        try:
            decoded[name] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise CliError(f"--encoded-param {name}: the value must be UTF-8 text in base64") from None
    return decoded


def _check_steps(file: str, loaded: LoadedPipeline, wanted: str) -> None:
    """Raise CliError if the pipeline's steps differ from the steps at the time of `pipeline compile`.

    `wanted` is the digest of the compiled steps; with "", nothing is checked. The orchestrator runs only the compiled
    steps.
    """
    from tfoperator.pipeline.compiling.launch_plan import steps_digest
    from tfoperator.pipeline.dsl.pipeline import graph_of

    graph = graph_of(loaded.pipeline)
    if wanted and steps_digest({node.name: node.after for node in graph.steps}) != wanted:
        raise CliError(
            f"{file}: with these parameters, the steps or their order differ from the compiled pipeline. The steps are "
            f"now: {', '.join(node.name for node in graph.steps)}",
            "Compile the pipeline with these parameters (tfoperator pipeline compile), and submit the new file.",
        )


def _exit_code(view: StepView, signals: list[int]) -> int:
    from tfoperator.pipeline import StepState

    if view.state.done:
        return 0
    if view.state is StepState.CANCELLED:
        return 128 + signals[-1] if signals else EXIT_INTERRUPTED
    return EXIT_RETRYABLE if view.state is StepState.RETRYABLE else EXIT_FAILED
