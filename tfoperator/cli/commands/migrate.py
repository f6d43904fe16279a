"""`tfoperator migrate [FILE ...]`: shows what must or can change in TFJobs before tfoperator replaces the Go operator.

The command changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.migration.cluster import ClusterFacts, cluster_findings
from tfoperator.api.migration.findings import Effort, Finding
from tfoperator.api.migration.jobs import job_findings, owned
from tfoperator.api.migration.reading import read_cluster
from tfoperator.base.clock import SystemClock
from tfoperator.cli.cluster import AllNamespaces, ClusterOptions
from tfoperator.cli.manifests import is_tfjob, metadata_text, title
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, say


class Subject(msgspec.Struct, frozen=True):
    """A job or the cluster, with its findings: what must or can change in the job or cluster for the migration.

    The `name` of a job with `generateName` is "".
    """

    title: str
    namespace: str
    name: str
    findings: tuple[Finding, ...]
    is_job: bool = True


def migrate(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE...]", help="Manifests to read instead of a cluster; - is stdin."),
    ] = None,
    output: ReportOutput = ReportFormat.TEXT,
    all_namespaces: AllNamespaces = False,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """List what changes for TFJobs of Kubeflow's training operator if tfoperator manages them.

    It reads a cluster or manifests, and changes nothing.

    Exit code 0: you have to do nothing first. 1: the list has actions for you. 2: bad input.
    """
    if files and (all_namespaces or cluster != ClusterOptions()):
        raise CliError("give either manifests or options for a cluster (such as --namespace or --context), not both")
    if files:
        subjects = _of_files(files)
    else:
        subjects = _of_cluster(cluster, all_namespaces=all_namespaces)
    if output is ReportFormat.JSON:
        typer.echo(json.dumps(migration_report(subjects), indent=2))
    else:
        _print(subjects)
    if _actions(subjects):
        raise typer.Exit(EXIT_FAILED)


def _of_files(files: list[str]) -> list[Subject]:
    manifests = [manifest for file in files for manifest in load_manifests(file)]
    for manifest in manifests:
        if not is_tfjob(manifest.obj):
            note(f"{manifest.place()}: skipped: {title(manifest)} is not a TFJob")
    return subjects_of_manifests(manifests, ", ".join(files))


def subjects_of_manifests(manifests: Iterable[Manifest], source: str) -> list[Subject]:
    """Return the TFJobs of the manifests with the findings about each job. Raises CliError if there is no TFJob."""
    now = SystemClock().now()
    jobs = [manifest for manifest in manifests if is_tfjob(manifest.obj)]
    if not jobs:
        raise CliError(f"{source}: the file contains no TFJob")
    return [_job(manifest.obj, job_findings(manifest.obj, None, now), manifest.place()) for manifest in jobs]


def _of_cluster(cluster: ClusterOptions, *, all_namespaces: bool) -> list[Subject]:
    with cluster.connect() as client:
        return subjects_of_cluster(read_cluster(client.api, "" if all_namespaces else client.namespace))


def subjects_of_cluster(facts: ClusterFacts) -> list[Subject]:
    """Return the cluster and its TFJobs, each with the findings about it."""
    now = SystemClock().now()
    pods = None if facts.pods is None else owned(facts.pods)
    subjects = [Subject("the cluster", "", "", cluster_findings(facts), is_job=False)]
    for obj in facts.jobs:
        uid = metadata_text(obj, "uid")
        subjects.append(_job(obj, job_findings(obj, None if pods is None else pods.get(uid, []), now)))
    return subjects


def _job(obj: dict[str, Any], findings: tuple[Finding, ...], place: str = "") -> Subject:
    namespace, name = metadata_text(obj, "namespace"), metadata_text(obj, "name")
    shown = name or f"{metadata_text(obj, 'generateName')}*"
    job = f"TFJob {namespace}/{shown}" if namespace else f"TFJob {shown}"
    return Subject(f"{place}: {job}" if place else job, namespace, name, findings)


def _actions(subjects: Iterable[Subject]) -> int:
    return sum(finding.effort is Effort.ACTION for subject in subjects for finding in subject.findings)


def _print(subjects: list[Subject]) -> None:
    for subject in subjects:
        say(subject.title)
        for finding in subject.findings:
            say(f"  {finding.effort:6}  {finding.field}: {finding.message}")
            if finding.todo:
                say(f"          -> {finding.todo}")
        if not subject.findings:
            say("  nothing changes")
    jobs = sum(subject.is_job for subject in subjects)
    actions = _actions(subjects)
    need = (
        "no action is needed before the migration"
        if not actions
        else f"{actions} findings need your action before the migration"
    )
    note(f"{jobs} TFJobs were checked: {need}. docs/migrate.md explains each step")


def migration_report(subjects: list[Subject]) -> dict[str, Any]:
    """Return the report of `tfoperator migrate -o json`."""
    return {
        "actions": _actions(subjects),
        "cluster": [
            msgspec.to_builtins(finding) for subject in subjects if not subject.is_job for finding in subject.findings
        ],
        "jobs": [
            {
                "namespace": subject.namespace,
                "name": subject.name,
                "findings": msgspec.to_builtins(subject.findings),
            }
            for subject in subjects
            if subject.is_job
        ],
    }
