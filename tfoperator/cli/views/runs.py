"""The records of runs in the columns of `tfoperator runs`, and a comparison of two runs. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime

from tfoperator.base.durations import human_duration
from tfoperator.cli.views.jobs import age
from tfoperator.cli.views.progress import metric_texts, short_number
from tfoperator.local.run.kept import KeptRun

RUNS_HEADER = ("RUN", "STATE", "AGE", "DURATION", "PROGRESS", "METRICS", "PARAMETERS")

_ROWS = 10  # the maximum number of steps of a curve in a table
_LONGEST = 60  # characters of a list of parameters

Curve = Sequence[tuple[int, float]]
Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


def run_row(run: KeptRun, now: datetime) -> tuple[str, ...]:
    """Return the cells of a run under RUNS_HEADER; metrics and parameters are from the run's first job."""
    job = run.result.jobs[0] if run.result is not None and run.result.jobs else None
    progress = job.progress if job is not None else None
    seconds = run.seconds(now)
    given = " ".join(f"{name}={value}" for name, value in job.parameters.items()) if job is not None else ""
    return (
        run.name,
        run.state,
        age(run.began, now),
        "-" if seconds is None else human_duration(seconds),
        (progress.completion if progress is not None else "") or "-",
        (", ".join(metric_texts(progress)) if progress is not None else "") or "-",
        (given if len(given) <= _LONGEST else given[: _LONGEST - 3] + "...") or "-",
    )


def comparison(runs: Sequence[KeptRun], curves: Sequence[Mapping[str, Curve]], now: datetime) -> list[Table]:
    """Return tables that compare the runs, each with title, header and rows.

    `curves` has, for each run in the same order, a dict from the name of a metric to its values over the steps. The
    tables of metrics come from it.
    """
    header = ("", *(run.name for run in runs))
    ends = [run_row(run, now) for run in runs]
    result = [(RUNS_HEADER[column].lower(), *(row[column] for row in ends)) for column in (1, 2, 3, 4)]
    given = [_parameters(run) for run in runs]
    tables: list[Table] = [("result", header, result)]
    parameters = [(name, *(of_run.get(name, "-") for of_run in given)) for name in _names(given)]
    last = [(name, *(_value(of_run.get(name)) for of_run in curves)) for name in _names(curves)]
    tables += [(title, header, rows) for title, rows in (("parameters", parameters), ("metrics", last)) if rows]
    for name in _names(curves):
        both = [of_run.get(name, ()) for of_run in curves]
        if any(len(points) > 1 for points in both):
            rows = [(str(step), *(_at(points, step) for points in both)) for step in _steps(both)]
            tables.append((f"{name} by step", ("step", *header[1:]), rows))
    return tables


def _parameters(run: KeptRun) -> Mapping[str, str]:
    return run.result.jobs[0].parameters if run.result is not None and run.result.jobs else {}


def _names(several: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for of_run in several for name in of_run))


def _value(points: Curve | None) -> str:
    return short_number(str(points[-1][1])) if points else "-"


def _steps(curves: Sequence[Curve]) -> list[int]:
    """Return some of the steps, evenly spread from the first to the last."""
    steps = sorted({step for points in curves for step, _ in points})
    if len(steps) <= _ROWS:
        return steps
    return [steps[round(number * (len(steps) - 1) / (_ROWS - 1))] for number in range(_ROWS)]


def _at(points: Curve, step: int) -> str:
    """Return the value at a step, or the last value before this step.

    Before the curve's first point and after its last point, return `-`.
    """
    at = bisect_right(points, step, key=lambda point: point[0])
    return short_number(str(points[at - 1][1])) if at and step <= points[-1][0] else "-"
