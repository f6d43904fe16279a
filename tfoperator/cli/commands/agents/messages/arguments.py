"""The arguments of the tools, as types: their JSON Schemas are the input schemas of the tools.

Texts that become parts of URLs and paths must match patterns. For example, the name of a job can't be an option
(`--all`) or a path (`../x`). In Python, `$` also matches before a line end at the end of the text. So each pattern ends
with `$(?!\\n)`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tfoperator.cli.commands.agents.messages.bounded import DEFAULT_CHARACTERS, MAX_CHARACTERS

_MAX_MANIFEST = 1 << 20

JobWord = Annotated[
    str,
    Meta(
        pattern=r"^[0-9A-Za-z][-0-9A-Za-z._]{0,252}(/[a-z0-9][-a-z0-9.]{0,252})?$(?!\n)",
        description="The name of a job of the cluster. For a run of this machine: RUN (the name of the run), RUN/JOB, "
        "or latest.",
    ),
]
Namespace = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$(?!\n)",
        description="The namespace of a job of the cluster. Default: the namespace of the kubeconfig's context.",
    ),
]
ReplicaWord = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z]{1,12}(-[0-9]{1,6})?$(?!\n)",
        description="A replica (worker-1), or all replicas of a type (worker).",
    ),
]
Manifest = Annotated[
    str, Meta(min_length=1, max_length=_MAX_MANIFEST, description="The text of a manifest, in YAML or JSON.")
]
FieldPath = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][-0-9A-Za-z._\[\]*]{0,300}$(?!\n)",
        description="The path of a field, such as spec.tfReplicaSpecs.Worker.restartPolicy.",
    ),
]
RunId = Annotated[
    str,
    Meta(
        pattern=r"^[0-9A-Za-z][-0-9A-Za-z._]{0,200}$(?!\n)",
        description="The id of a pipeline run, or latest for the newest run.",
    ),
]
Token = Annotated[
    str,
    Meta(
        pattern=r"^[-0-9a-z.]{1,80}$(?!\n)",
        description="The token that the first call returned. Without a token, the call only shows the effect of the "
        "change.",
    ),
]


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base class: the arguments that every tool has."""

    max_characters: Annotated[
        int, Meta(ge=1000, le=MAX_CHARACTERS, description="The maximum length of the answer, in characters of JSON.")
    ] = DEFAULT_CHARACTERS


class AboutJob(ToolArguments, frozen=True, kw_only=True):
    """The arguments of a tool about one job."""

    job: JobWord
    namespace: Namespace | None = None


class ListJobs(ToolArguments, frozen=True, kw_only=True):
    """The arguments of the tool `list_jobs`."""

    namespace: Namespace | None = None
    all_namespaces: Annotated[bool, Meta(description="Jobs of every namespace.")] = False
    limit: Annotated[int, Meta(ge=1, le=500, description="The maximum number of jobs, and of runs.")] = 50


class Explain(AboutJob, frozen=True, kw_only=True):
    """The arguments of the tool `explain`."""

    whole: Annotated[bool, Meta(description="Return the whole report as data, too.")] = False


class ReadLogs(AboutJob, frozen=True, kw_only=True):
    """The arguments of the tool `logs`."""

    replica: ReplicaWord | None = None
    all_replicas: Annotated[
        bool,
        Meta(
            description="Read the logs of all replicas. Default: only of the chief, or, without a chief, of worker 0."
        ),
    ] = False
    previous: Annotated[bool, Meta(description="Read the log of the attempt before the last restart.")] = False
    pattern: (
        Annotated[
            str,
            Meta(min_length=1, max_length=200, description="Only lines that contain this text, in any letter case."),
        ]
        | None
    ) = None
    around: Annotated[datetime, Meta(tz=True, description="Only lines around this time (RFC 3339).")] | None = None
    context: Annotated[
        int, Meta(ge=0, le=200, description="The number of lines before and after each line that contains `pattern`.")
    ] = 5
    lines: Annotated[int, Meta(ge=1, le=2000, description="The maximum number of lines of each replica.")] = 200


class Progressing(AboutJob, frozen=True, kw_only=True):
    """The arguments of the tool `progress`."""


class TakeStacks(AboutJob, frozen=True, kw_only=True):
    """The arguments of the tool `stacks`."""

    replica: ReplicaWord | None = None


class WithManifest(ToolArguments, frozen=True, kw_only=True):
    """The arguments of a tool about a manifest."""

    manifest: Manifest


class Validate(WithManifest, frozen=True, kw_only=True):
    """The arguments of the tool `validate_manifest`."""

    strict: Annotated[bool, Meta(description="Treat warnings as errors.")] = False


class ExplainField(ToolArguments, frozen=True, kw_only=True):
    """The arguments of the tool `explain_field`."""

    field: FieldPath


class Migrate(ToolArguments, frozen=True, kw_only=True):
    """The arguments of the tool `migrate`."""

    manifest: Manifest | None = None
    namespace: Namespace | None = None
    all_namespaces: Annotated[bool, Meta(description="Jobs of every namespace.")] = False


class PipelineRunsAsked(ToolArguments, frozen=True, kw_only=True):
    """The arguments of the tool `pipeline_runs`."""

    run: RunId | None = None
    pipeline: Annotated[str, Meta(max_length=200, description="Only the runs of this pipeline.")] = ""
    limit: Annotated[int, Meta(ge=1, le=200, description="The maximum number of runs.")] = 20


class LineageAsked(ToolArguments, frozen=True, kw_only=True):
    """The arguments of the tool `lineage`."""

    artifact: Annotated[str, Meta(min_length=1, max_length=2000, description="The URI or the id of an artifact.")]
    downstream: Annotated[
        bool, Meta(description="Return the artifacts that were made from this artifact, and not its origin.")
    ] = False


class ChangeJob(AboutJob, frozen=True, kw_only=True):
    """The arguments of a tool that changes a job; `token` confirms the change (see `ChangeResult`)."""

    token: Token | None = None


class Scale(ChangeJob, frozen=True, kw_only=True):
    """The arguments of the tool `scale`."""

    replicas: Annotated[
        dict[str, Annotated[int, Meta(ge=0, le=10000)]],
        Meta(min_length=1, max_length=5, description='The number of replicas by type, such as {"Worker": 3}.'),
    ]


class Submit(ToolArguments, frozen=True, kw_only=True):
    """The arguments of the tool `submit`: a manifest's text, or a file that the user named at the server's start.

    `token` confirms the change (see `ChangeResult`).
    """

    manifest: Manifest | None = None
    file: (
        Annotated[str, Meta(max_length=4096, description="A file that the user named at the start of this server.")]
        | None
    ) = None
    namespace: Namespace | None = None
    token: Token | None = None


class Run(ToolArguments, frozen=True, kw_only=True):
    """The arguments of the tool `run`. If `file` is a manifest, numbers of replicas and `arguments` are not allowed."""

    file: Annotated[str, Meta(max_length=4096, description="A file that the user named at the start of this server.")]
    workers: Annotated[int, Meta(ge=1, le=64)] | None = None
    ps: Annotated[int, Meta(ge=0, le=64)] | None = None
    chief: bool = False
    arguments: Annotated[
        tuple[Annotated[str, Meta(max_length=1000)], ...],
        Meta(max_length=100, description="The program's own arguments."),
    ] = ()
    timeout_seconds: Annotated[int, Meta(ge=1, le=604800, description="Stop the run after this time.")] | None = None
    token: Token | None = None
