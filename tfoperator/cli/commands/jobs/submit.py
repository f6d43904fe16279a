"""`tfoperator submit FILE...`: check TFJobs and create them in a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.loading import Manifest
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.api.validation import validate_multikueue
from tfoperator.cli.cluster import ClusterOptions, plain
from tfoperator.cli.manifests import checked_manifests, in_namespace, is_tfjob, title
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_TIMEOUT, complain
from tfoperator.cli.terminal.output import ObjectFormat, ObjectOutput, as_list, note, print_object, say, without_noise
from tfoperator.cli.waiting import Deadline, await_conditions, optional_deadline
from tfoperator.kube.errors import AlreadyExistsError, NotFoundError
from tfoperator.kube.resources import NAMESPACES
from tfoperator.sdk import TFJobClient, TFJobError
from tfoperator.sdk.errors import job_errors


class DryRun(StrEnum):
    """Who checks, without creating anything."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


def submit(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifests (YAML or JSON); - is stdin.")],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until every job has ended.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="With --wait: how long at most, e.g. 90s or 1h30m.")
    ] = None,
    dry_run: Annotated[
        DryRun, typer.Option("--dry-run", help="Only check: here (client), or by the API server as well (server).")
    ] = DryRun.NONE,
    output: ObjectOutput = ObjectFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Create TFJobs in a cluster.

    Everything is checked first; nothing is created if there is a mistake. ConfigMaps, Secrets, claims, Services and
    ServiceAccounts in the files are created, too, in their order.

    Exit code 0: done (with --wait: all jobs succeeded). 1: refused, or a job failed. 2: bad input. 124: time is up.
    """
    deadline = optional_deadline(wait, timeout)
    manifests = checked_manifests(files, consequence="Nothing was submitted.", exit_code=EXIT_FAILED)
    with cluster.connect() as client:
        places = [in_namespace(manifest, cluster.namespace, client.namespace) for manifest in manifests]
        created: list[dict[str, Any]] = []
        for manifest, place in zip(manifests, places, strict=True):
            if is_tfjob(manifest.obj):
                created.append(_create_job(client, manifest, place, dry_run, output))
            else:
                _create_other(client, manifest, place, dry_run)
        code = 0
        if wait and dry_run is DryRun.NONE:
            code = _wait(client, created, deadline)
            if output in (ObjectFormat.JSON, ObjectFormat.YAML):
                created = [_fetch(client, job) for job in created]
    if output in (ObjectFormat.JSON, ObjectFormat.YAML):
        jobs = [without_noise(job) for job in created]
        print_object(jobs[0] if len(jobs) == 1 else as_list(jobs), output)
    raise typer.Exit(code)


def _create_job(
    client: TFJobClient, manifest: Manifest, place: str, dry_run: DryRun, output: ObjectFormat
) -> dict[str, Any]:
    metadata = manifest.obj["metadata"]
    made: dict[str, Any] = {**manifest.obj, "metadata": {**metadata, "namespace": place}}
    if dry_run is not DryRun.CLIENT:
        with job_errors(place, str(metadata.get("name") or metadata.get("generateName"))):
            made = client.api.create(TFJOBS, place, made, plain, dry_run=dry_run is DryRun.SERVER)
        _warn_of_multikueue(manifest, made)
    name = f"tfjob.kubeflow.org/{made['metadata'].get('name', metadata.get('generateName'))}"
    if output is ObjectFormat.NAME:
        say(name)
    elif output is ObjectFormat.TEXT:
        say(f"{name} created" + (f" ({dry_run} dry run)" if dry_run is not DryRun.NONE else f" in {place}"))
    return made


def _warn_of_multikueue(manifest: Manifest, made: dict[str, Any]) -> None:
    """Warn that Kueue gives jobs in some queues to MultiKueue at creation, which the check before can't detect."""
    told = set(validate_multikueue(decode_tfjob(msgspec.json.encode(manifest.obj))))
    for problem in validate_multikueue(decode_tfjob(msgspec.json.encode(made))):
        if problem not in told:
            note(f"{manifest.place(problem.field)}: warning: {problem}")


def _create_other(client: TFJobClient, manifest: Manifest, place: str, dry_run: DryRun) -> None:
    from tfoperator.local.manifest_resources import resource_of

    resource = resource_of(manifest.obj)
    if resource is None:
        note(f"{manifest.place()}: {title(manifest)} is left out; create it with kubectl apply")
        return
    if dry_run is DryRun.CLIENT:
        return
    where = place if resource is not NAMESPACES else ""
    try:
        client.api.create(resource, where, manifest.obj, plain, dry_run=dry_run is DryRun.SERVER)
    except AlreadyExistsError:
        note(f"{title(manifest)} is there already and stays as it is")
    else:
        note(f"{title(manifest)} created")


def _wait(client: TFJobClient, jobs: list[dict[str, Any]], deadline: Deadline) -> int:
    codes = []
    for job in jobs:
        name, place = job["metadata"]["name"], job["metadata"]["namespace"]
        try:
            await_conditions(client, name, place, ["Succeeded"], deadline)
        except TFJobError as error:
            codes.append(complain(error))
        else:
            codes.append(0)
            note(f"TFJob {name} has succeeded")
    # A failure overrides a time-out: waiting longer would not help.
    return EXIT_FAILED if EXIT_FAILED in codes else EXIT_TIMEOUT if EXIT_TIMEOUT in codes else 0


def _fetch(client: TFJobClient, job: dict[str, Any]) -> dict[str, Any]:
    try:
        return client.api.get(TFJOBS, job["metadata"]["namespace"], job["metadata"]["name"], plain)
    except NotFoundError:  # its ttl may be short
        return job
