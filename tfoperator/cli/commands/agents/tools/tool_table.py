"""The tools of the MCP server: name, description, types of arguments and answer, and function of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tfoperator.cli.commands.agents.messages import answers, arguments
from tfoperator.cli.commands.agents.tools import jobs, manifests, pipelines
from tfoperator.cli.commands.agents.tools.changes import Changes
from tfoperator.cli.commands.agents.tools.scope import Scope, Step


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of the MCP server."""

    name: str
    title: str
    description: str
    arguments: type[arguments.ToolArguments]
    answer: type[answers.ToolAnswer]
    call: Callable[[Scope, Any, Step], answers.ToolAnswer]
    changes: bool = False
    """Whether the tool changes a job."""

    destroys: bool = False
    """Whether the tool may delete data or pods."""

    again: bool = True
    """Whether a second call with the same arguments changes nothing more (MCP's idempotent hint)."""

    own_texts: tuple[str, ...] = ()
    """The members of the answer that contain only text from the call's arguments or from tfoperator.

    The server does not mask secrets in these texts.
    """


READING = (
    Tool(
        name="list_jobs",
        title="List jobs and runs",
        description="List the TFJobs of the cluster and the runs of this machine, with their states, the newest first.",
        arguments=arguments.ListJobs,
        answer=answers.JobList,
        call=jobs.list_jobs,
    ),
    Tool(
        name="explain",
        title="Explain why a job failed",
        description=(
            "Explain why a job or a run failed, or makes no progress: the state, the cause, the process that failed "
            "first, the lines that prove the cause, and the next steps. Call this tool before logs and events, because "
            "this tool also reads logs and events."
        ),
        arguments=arguments.Explain,
        answer=answers.Explanation,
        call=jobs.explain,
    ),
    Tool(
        name="logs",
        title="Read logs",
        description=(
            "Read the log of a replica: its last lines, lines around a time, or lines that contain a text. The "
            "previous attempt of a replica has a log of its own."
        ),
        arguments=arguments.ReadLogs,
        answer=answers.Logs,
        call=jobs.logs,
    ),
    Tool(
        name="events",
        title="Read events",
        description="Read the events of a job, its pods and services, the newest last.",
        arguments=arguments.AboutJob,
        answer=answers.Events,
        call=jobs.events,
    ),
    Tool(
        name="progress",
        title="Read progress and metrics",
        description=(
            "Read the progress of a job's training: step, remaining time, metrics, replicas that are behind, the use "
            "of CPUs, memory and GPUs, and for a run of this machine the curves of its metrics."
        ),
        arguments=arguments.Progressing,
        answer=answers.ProgressOfTraining,
        call=jobs.progress,
    ),
    Tool(
        name="stacks",
        title="Take stacks",
        description="Take the stacks of the Python threads of a running job's replicas, to find out where they wait.",
        arguments=arguments.TakeStacks,
        answer=answers.Stacks,
        call=jobs.stacks,
    ),
    Tool(
        name="validate_manifest",
        title="Check a manifest",
        description="Check the text of a manifest without a cluster. Return every mistake with its line and field.",
        arguments=arguments.Validate,
        answer=answers.Validation,
        call=manifests.validate_manifest,
        own_texts=("objects", "errors"),
    ),
    Tool(
        name="explain_field",
        title="Explain a field",
        description="Explain a field of a TFJob: its meaning, type, default, allowed values and members.",
        arguments=arguments.ExplainField,
        answer=answers.FieldMeaning,
        call=manifests.explain_field,
        own_texts=("field", "description", "members", "default", "choices"),
    ),
    Tool(
        name="convert_manifest",
        title="Convert a manifest",
        description="Convert TFJobs of older versions (v1alpha1, v1alpha2) to kubeflow.org/v1.",
        arguments=arguments.WithManifest,
        answer=answers.Converted,
        call=manifests.convert_manifest,
        own_texts=("manifest", "notes", "errors"),
    ),
    Tool(
        name="migrate",
        title="Prepare a migration",
        description=(
            "Find out what would change for TFJobs of the Go operator (training-operator), in the cluster or in a "
            "manifest, if tfoperator took over."
        ),
        arguments=arguments.Migrate,
        answer=answers.Migration,
        call=manifests.migrate,
    ),
    Tool(
        name="pipeline_runs",
        title="Read runs of pipelines",
        description="List the runs of pipelines, or read one run: its steps, their states, inputs and outputs.",
        arguments=arguments.PipelineRunsAsked,
        answer=answers.PipelineRuns,
        call=pipelines.pipeline_runs,
    ),
    Tool(
        name="lineage",
        title="Read the lineage of an artifact",
        description="Find the origin of a pipeline's artifact, or the artifacts that were made from this artifact.",
        arguments=arguments.LineageAsked,
        answer=answers.LineageAnswer,
        call=pipelines.lineage,
    ),
)
"""The tools that change nothing."""

_TWO_CALLS = (
    "The first call only shows the effect of the change, and returns a token. A second call with this token makes the "
    "change. If the client can ask the user, one call is enough: it makes the change after the user has accepted the "
    "change."
)


def changing(changes: Changes) -> tuple[Tool, ...]:
    """Return the tools that change something: they exist only with --allow-changes."""
    return (
        Tool(
            name="run",
            title="Run a file on this machine",
            description=f"Run a program or a manifest that the user has named, on this machine. {_TWO_CALLS}",
            arguments=arguments.Run,
            answer=answers.ChangeResult,
            call=changes.run,
            changes=True,
            again=False,
        ),
        Tool(
            name="submit",
            title="Submit TFJobs",
            description=f"Check the TFJobs of a manifest, and create them in the cluster. {_TWO_CALLS}",
            arguments=arguments.Submit,
            answer=answers.ChangeResult,
            call=changes.submit,
            changes=True,
            again=False,
        ),
        Tool(
            name="suspend",
            title="Suspend a job",
            description=f"Stop the pods of a TFJob until it is resumed. {_TWO_CALLS}",
            arguments=arguments.ChangeJob,
            answer=answers.ChangeResult,
            call=changes.suspend,
            changes=True,
            destroys=True,
        ),
        Tool(
            name="resume",
            title="Resume a job",
            description=f"Let a suspended TFJob run again. {_TWO_CALLS}",
            arguments=arguments.ChangeJob,
            answer=answers.ChangeResult,
            call=changes.resume,
            changes=True,
        ),
        Tool(
            name="scale",
            title="Scale a job",
            description=f"Change the number of replicas of a TFJob. {_TWO_CALLS}",
            arguments=arguments.Scale,
            answer=answers.ChangeResult,
            call=changes.scale,
            changes=True,
            destroys=True,
        ),
        Tool(
            name="delete",
            title="Delete a job",
            description=f"Delete a TFJob of the cluster, or stop a run that this server has started. {_TWO_CALLS}",
            arguments=arguments.ChangeJob,
            answer=answers.ChangeResult,
            call=changes.delete,
            changes=True,
            destroys=True,
        ),
    )
