"""The tools about runs of pipelines and their artifacts. These tools change nothing."""

from __future__ import annotations

from tfoperator.cli.commands.agents.messages import answers, arguments
from tfoperator.cli.commands.agents.tools.scope import Scope, Step
from tfoperator.cli.commands.pipeline.opening import opened
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError


def pipeline_runs(scope: Scope, asked: arguments.PipelineRunsAsked, step: Step) -> answers.PipelineRuns:
    """Return the runs of pipelines; if the call names a run, return only that run, with its steps."""
    step("reading the records of pipelines")
    with opened(scope.pipelines) as (place, store):
        # Imported late: it needs SQLAlchemy.
        from tfoperator.cli.views.pipelines import run_report

        if asked.run is not None:
            run = place.find(store, asked.run)
            return answers.PipelineRuns(runs=(run_report(run, store.executions(run.id)),))
        records = [place.seen(record) for record in store.runs(asked.pipeline)]
        chosen = records[: asked.limit]
        reports = tuple(run_report(run, store.executions(run.id)) for run in chosen)
    more = [f"{len(records) - len(chosen)} older runs"] if len(records) > len(chosen) else []
    return answers.PipelineRuns(runs=reports, left_out=tuple(more))


def lineage(scope: Scope, asked: arguments.LineageAsked, step: Step) -> answers.LineageAnswer:
    """Return the artifacts from which an artifact was made.

    If `asked.downstream` is true, return the artifacts that were made from this artifact instead.
    """
    step("reading the records of pipelines")
    with opened(scope.pipelines) as (_, store):
        from tfoperator.cli.views.pipelines import lineage_report
        from tfoperator.pipeline import lineage_of

        artifacts = store.artifacts(asked.artifact)
        if not artifacts:
            raise CliError(
                f"artifact {asked.artifact} is unknown", "To list them, call pipeline_runs.", exit_code=EXIT_FAILED
            )
        return answers.LineageAnswer(
            lineage=lineage_report(lineage_of(store, artifacts[0], downstream=asked.downstream))
        )
