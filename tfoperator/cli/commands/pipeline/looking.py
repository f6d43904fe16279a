"""`tfoperator pipeline runs|show|logs|lineage|graph|ui`: show runs, and the lineage of artifacts.

These commands change nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tfoperator.base.clock import SystemClock
from tfoperator.base.controlchars import without_controls
from tfoperator.base.private_files import check_own_place
from tfoperator.cli.commands.pipeline.opening import DEFAULT_HOME, HomeOption, RunArgument, in_words, opened
from tfoperator.cli.commands.ui import PagePort
from tfoperator.cli.option_groups import single_values
from tfoperator.cli.page import checked_home, serve_until_interrupted
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, print_object, say, table


def runs(
    pipeline: Annotated[
        str, typer.Option("--pipeline", help="Show only the runs of this pipeline.", metavar="NAME")
    ] = "",
    home: HomeOption = DEFAULT_HOME,
    output: ReportOutput = ReportFormat.TEXT,
) -> None:
    """List the runs, the newest first."""
    with opened(home) as (place, store):
        from tfoperator.cli.views.pipelines import RUNS_HEADER, run_report, run_row

        records = [place.seen(record) for record in store.runs(pipeline)]
        states = store.execution_states()
        reports = [run_report(record, store.executions(record.id)) for record in records if output is ReportFormat.JSON]
    if output is ReportFormat.JSON:
        print_object(reports, output)
    elif records:
        now = SystemClock().now()
        table(RUNS_HEADER, [run_row(record, states.get(record.id, {}), now) for record in records], state_column=2)
    else:
        note("there are no pipeline runs" + (f" of {pipeline}" if pipeline else ""))


def show(run: RunArgument, home: HomeOption = DEFAULT_HOME, output: ReportOutput = ReportFormat.TEXT) -> None:
    """Show a run: its steps, their inputs and their outputs."""
    with opened(home) as (place, store):
        from tfoperator.cli.views.pipelines import run_lines, run_report

        record = place.find(store, run)
        executions = store.executions(record.id)
        under_way = [step for step in record.steps if step in executions and executions[step].state == "RUNNING"]
        launches = {
            step: launch for step in under_way if (launch := place.known_launch(store, record, step)) is not None
        }
    if output is ReportFormat.JSON:
        print_object(run_report(record, executions, launches), output)
        return
    for line in run_lines(record, executions, launches, SystemClock().now()):
        say(line)


def logs(
    run: RunArgument,
    step: Annotated[str, typer.Argument(metavar="STEP", help="Name of a step of the run.")],
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Print the log of a step of a run."""
    with opened(home) as (place, store):
        record = place.find(store, run)
        if step not in record.steps:
            raise CliError(f"run {record.id} has no step {step!r}; its steps are {', '.join(record.steps)}")
        used = store.executions(record.id).get(step)
        try:
            for line in place.logs.lines(record.id, step):
                typer.echo(without_controls(line))
        except FileNotFoundError:
            cached = used is not None and used.state == "CACHED"
            why = "its outputs come from an earlier execution" if cached else "it logged nothing"
            note(f"step {step} of run {record.id} has no log: {why}")
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CliError(f"the log can't be read: {error.strerror}", exit_code=EXIT_FAILED) from None


def lineage(
    artifact: Annotated[str, typer.Argument(metavar="ARTIFACT", help="An artifact's URI or id.")],
    downstream: Annotated[
        bool,
        typer.Option(
            "--downstream",
            help="Show the artifacts that were made from this artifact, and not the artifacts that went into it.",
        ),
    ] = False,
    home: HomeOption = DEFAULT_HOME,
    output: ReportOutput = ReportFormat.TEXT,
) -> None:
    """Show the lineage of an artifact: the executions, parameters and artifacts from which it was made."""
    with opened(home) as (_, store):
        from tfoperator.cli.views.pipelines import lineage_lines, lineage_report
        from tfoperator.pipeline import lineage_of

        artifacts = store.artifacts(artifact)
        if not artifacts:
            raise CliError(
                f"artifact {artifact} has no record here",
                "To see the artifacts of a run: tfoperator pipeline show RUN",
                exit_code=EXIT_FAILED,
            )
        tree = lineage_of(store, artifacts[0], downstream=downstream)
    if output is ReportFormat.JSON:
        print_object(lineage_report(tree), output)
        return
    for line in lineage_lines(tree):
        say(line)


def graph(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|RUN", help="A pipeline in Python, or a run: its id, or the word latest for the newest run."
        ),
    ],
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            help="Value of a parameter; repeat the option for more parameters.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Print a picture (SVG) of a pipeline, or of a run with the states of its steps."""
    if what.endswith((".py", ".yaml", ".yml", ".json")):
        with in_words():
            from tfoperator.pipeline.drawing import draw
            from tfoperator.pipeline.dsl.pipeline import graph_of
            from tfoperator.pipeline.pipeline_file import load_pipeline_file

            if not Path(what).is_file():
                raise CliError(f"{what}: is not the name of a run or of a file")
            made = graph_of(load_pipeline_file(what, single_values("--param", params)).pipeline)
            typer.echo(draw(made.name, {step.name: sorted(step.after) for step in made.steps}), nl=False)
        return
    with opened(home) as (place, store):
        from tfoperator.pipeline.drawing import draw, states_of, step_notes

        record = place.find(store, what)
        executions = store.executions(record.id)
        title = f"{record.pipeline}, run {record.id}: {record.state}"
        typer.echo(draw(title, record.steps, states_of(record, executions), step_notes(record, executions)), nl=False)


def ui(home: HomeOption = DEFAULT_HOME, port: PagePort = 0) -> None:
    """Serve a page of old and new pipeline runs. The page needs no cluster. `tfoperator ui` also shows jobs.

    The page listens on 127.0.0.1 only, and changes nothing. The printed link works once, for one browser. After a
    browser has used the link, the command prints a new link. Ctrl-C ends the command.
    """
    with in_words():
        place = checked_home(home)
        if isinstance(place, Path):
            check_own_place(place)
        serve_until_interrupted(None, port=port, pipelines=place)
