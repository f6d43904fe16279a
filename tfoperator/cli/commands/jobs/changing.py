"""`tfoperator suspend`, `resume`, `scale` and `delete`: change jobs, one by one, and report each failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from tfoperator.api.loading import load_manifests
from tfoperator.api.replicas.names import parse_replica_type
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.cli.cluster import ClusterOptions, JobName
from tfoperator.cli.manifests import in_namespace, is_tfjob, title
from tfoperator.cli.recorded import client_to_change
from tfoperator.cli.terminal.complaints import complain
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_TIMEOUT, CliError
from tfoperator.cli.terminal.output import (
    ObjectFormat,
    ObjectOutput,
    ReportFormat,
    ReportOutput,
    note,
    print_object,
    print_objects,
    say,
    without_noise,
)
from tfoperator.cli.waiting import await_deletion, optional_deadline
from tfoperator.kube.protocol.errors import KubeError, TransportError
from tfoperator.kube.protocol.verbs import decode_plain
from tfoperator.sdk import JobNotFound, TFJobClient, TFJobError


def _command(change: Callable[[TFJobClient, str], TFJob], done: str, help_text: str) -> Callable[..., None]:
    def command(
        names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of the jobs.")],
        output: ObjectOutput = ObjectFormat.TEXT,
        cluster: ClusterOptions = ClusterOptions(),
    ) -> None:
        with cluster.connect() as client:
            _apply_to_each(client, names, lambda name: change(client, name), output, done=done)

    command.__doc__ = help_text
    return command


suspend = _command(
    lambda client, name: client.suspend_job(name), "suspended", "Stop the pods of TFJobs until they are resumed."
)
resume = _command(lambda client, name: client.resume_job(name), "resumed", "Let suspended TFJobs run again.")


def scale(
    name: JobName,
    workers: Annotated[int | None, typer.Option("--workers", help="Number of workers.", min=0)] = None,
    replicas: Annotated[
        list[str] | None, typer.Option("--replicas", help="Number of replicas of a type, e.g. PS=2.", metavar="TYPE=N")
    ] = None,
    output: ObjectOutput = ObjectFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Change the number of replicas of a TFJob.

    In place of a job's name, you can give the name or the directory of a run of `tfoperator run` that has not ended, or
    the word latest.
    """
    wanted: dict[str, int] = dict(_count(text) for text in replicas or ())
    if workers is not None:
        wanted[ReplicaType.WORKER] = workers
    if not wanted:
        raise CliError("the number of replicas is missing: use --workers N, or --replicas TYPE=N")
    with client_to_change(name, cluster) as (client, job_name):

        def change(name: str) -> TFJob:
            job = client.scale_job(name, wanted)
            learns = job.spec.enable_dynamic_worker or job.spec.elastic_policy is not None
            if not learns and job.status.start_time is not None:
                note(
                    "warning: the job has neither enableDynamicWorker nor elasticPolicy, so its running replicas "
                    "don't get the new number of replicas"
                )
            return job

        _apply_to_each(client, [job_name], change, output, done="scaled")


def _count(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    replica_type = parse_replica_type(name)
    if replica_type is None or not (number.isascii() and number.isdigit()):
        raise CliError(
            f"--replicas {text}: must have the form TYPE=N, such as PS=2; the types are {', '.join(ReplicaType)}"
        )
    return replica_type, int(number)


def _apply_to_each(
    client: TFJobClient, names: Sequence[str], change: Callable[[str], TFJob], output: ObjectFormat, *, done: str
) -> None:
    """Change each job and print the result. `done` is the verb in the output, for example `suspended`.

    After a failure the function continues with the next job, and raises typer.Exit at the end. If the API server does
    not answer, the function skips the remaining jobs.
    """
    changed: list[dict[str, Any]] = []
    code = 0
    for name in names:
        try:
            change(name)
            if output in (ObjectFormat.JSON, ObjectFormat.YAML):
                changed.append(without_noise(client.api.get(TFJOBS, client.namespace, name, decode_plain)))
        except (TFJobError, KubeError) as error:
            code = complain(error)
            if isinstance(error, TransportError):
                break
            continue
        if output is ObjectFormat.NAME:
            say(f"tfjob.kubeflow.org/{name}")
        elif output is ObjectFormat.TEXT:
            say(f"tfjob.kubeflow.org/{name} {done}")
    if changed:
        print_objects(changed, output, single=len(names) == 1)
    if code:
        raise typer.Exit(code)


def delete(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Names of the jobs.")] = None,
    files: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="Delete the TFJobs in this manifest.", metavar="FILE")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until the jobs are gone.")] = False,
    timeout: Annotated[str | None, typer.Option("--timeout", help="With --wait: the longest time to wait.")] = None,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Don't fail if a job does not exist.")
    ] = False,
    output: ReportOutput = ReportFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Delete TFJobs. Kubernetes then deletes their pods and services."""
    if bool(names) == bool(files):
        raise CliError("give either names of jobs or manifests (-f FILE)")
    deadline = optional_deadline(wait, timeout)
    with cluster.connect() as client:
        targets = [(name, client.namespace) for name in names or ()]
        for file in files or ():
            targets += _in_file(file, cluster.namespace, client.namespace)
        deleted, failures = _delete_each(client, targets, ignore_not_found, output)
        try:
            for name, where in deleted if wait else ():
                await_deletion(client, name, where, deadline)
        except (TFJobError, KubeError) as error:
            failures.append(error)
    if output is ReportFormat.JSON:
        print_object({"deleted": [{"name": name, "namespace": where} for name, where in deleted]}, output)
    codes = [complain(error) for error in failures]
    if codes:
        raise typer.Exit(EXIT_TIMEOUT if set(codes) == {EXIT_TIMEOUT} else EXIT_FAILED)


def _delete_each(
    client: TFJobClient, targets: Sequence[tuple[str, str]], ignore_not_found: bool, output: ReportFormat
) -> tuple[list[tuple[str, str]], list[Exception]]:
    """Delete each job; return the names and namespaces of the deleted jobs, and the errors.

    If the API server does not answer, skip the remaining jobs.
    """
    deleted: list[tuple[str, str]] = []
    failures: list[Exception] = []
    for name, where in targets:
        try:
            client.delete_job(name, where)
        except (TFJobError, KubeError) as error:
            if not (ignore_not_found and isinstance(error, JobNotFound)):
                failures.append(error)
            if isinstance(error, TransportError):
                break
        else:
            deleted.append((name, where))
            if output is ReportFormat.TEXT:
                say(f"tfjob.kubeflow.org/{name} deleted")
    return deleted, failures


def _in_file(file: str, asked: str | None, default: str) -> list[tuple[str, str]]:
    targets = []
    for manifest in load_manifests(file):
        if not is_tfjob(manifest.obj):
            note(f"{manifest.place()}: {title(manifest)} is skipped: it is not a TFJob")
            continue
        name = (manifest.obj.get("metadata") or {}).get("name")
        if not name:
            raise CliError(f"{manifest.place()}: the TFJob has no name, so it can't be deleted")
        targets.append((str(name), in_namespace(manifest, asked, default)))
    if not targets:
        raise CliError(f"{file}: the file contains no TFJob")
    return targets
