"""`tfoperator runs` and `runs compare`: show the runs in the current folder, and compare two runs.

These commands change nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tfoperator.base.clock import SystemClock
from tfoperator.cli.page import serve_until_interrupted
from tfoperator.cli.recorded import find_run, kept_runs
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, print_object, say, table
from tfoperator.cli.views.runs import RUNS_HEADER, comparison, run_row
from tfoperator.local.run.kept import KeptRun

RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run: its name, its directory, or the word latest.")]


def runs(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", help="Show only this number of newest runs.", min=1)] = 20,
    output: ReportOutput = ReportFormat.TEXT,
) -> None:
    """List the runs of `tfoperator run` in this folder, the newest first.

    `get`, `describe`, `events`, `logs`, `report` and `ui` take the name of a run in place of a job's name, without a
    cluster.
    """
    if context.invoked_subcommand is not None:
        return
    newest_runs, count = kept_runs(limit)
    if output is ReportFormat.JSON:
        print_object([_plain(run) for run in newest_runs], output)
    elif newest_runs:
        now = SystemClock().now()
        table(RUNS_HEADER, [run_row(run, now) for run in newest_runs], state_column=1)
        if count > limit:
            note(f"and {count - limit} older runs; to list them: --limit {count}")
    else:
        note("This folder has no runs yet. To run a job: tfoperator run FILE")


def compare(
    left: RunName,
    right: RunName,
    ui: Annotated[bool, typer.Option("--ui", help="Serve a page that shows both runs, until Ctrl-C.")] = False,
    output: ReportOutput = ReportFormat.TEXT,
) -> None:
    """Compare two runs: their results, parameters, last metrics, and curves of the metrics over the steps."""
    both = [find_run(word) for word in (left, right)]
    curves = [curves_of(run.directory) for run in both]
    if output is ReportFormat.JSON:
        print_object([_plain(run) | {"curves": of_run} for run, of_run in zip(both, curves, strict=True)], output)
        return
    tables = comparison(both, curves, SystemClock().now())
    if ui:
        serve_until_interrupted(None, comparison={"tables": tables, "curves": curves})
        return
    for title, header, rows in tables:
        say(title)
        table(header, rows, indent="  ")


def _plain(run: KeptRun) -> dict[str, object]:
    plain = msgspec.to_builtins(run.result) if run.result is not None else {}
    times = {"began": run.began.isoformat(), "ended": None if run.ended is None else run.ended.isoformat()}
    return {"name": run.name, "state": run.state, "runDirectory": str(run.directory), **plain, **times}


def curves_of(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the points of each metric of a run as (step, value).

    If the program reports no steps, the number of the point takes the place of the step. Return {} if the records of
    the run can't be read.
    """
    from tfoperator.local.run.records import read_records

    try:
        kept = read_records(directory).curves
    except (OSError, ValueError):
        return {}
    return {
        name: [(point.step if point.step >= 0 else number, point.value) for number, point in enumerate(points)]
        for of_job in kept.values()
        for name, points in of_job.items()
    }
