"""`tfoperator submit FILE...`: check TFJobs from manifests, or a TFJob for a program, and create them in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.loading import Manifest, load_manifests
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.api.validation.warnings import validate_multikueue
from tfoperator.base.controlchars import printable
from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.commands.jobs.logs import LinePrinter
from tfoperator.cli.manifests import checked, in_namespace, is_tfjob, title
from tfoperator.cli.program_job import is_program
from tfoperator.cli.program_options import ProgramOptions, program_job
from tfoperator.cli.terminal.complaints import complain
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TIMEOUT, CliError
from tfoperator.cli.terminal.output import (
    ObjectFormat,
    ObjectOutput,
    ReportFormat,
    note,
    print_objects,
    say,
    without_noise,
)
from tfoperator.cli.terminal.progress import StatusLine
from tfoperator.cli.waiting import Deadline, await_conditions, optional_deadline
from tfoperator.kube.protocol.errors import AlreadyExistsError, NoClusterConfigured, NotFoundError
from tfoperator.kube.protocol.resources import NAMESPACES
from tfoperator.kube.protocol.verbs import decode_plain
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.sdk import DEFAULT_BASE_IMAGE, TFJobClient, TFJobError
from tfoperator.sdk.errors import job_errors
from tfoperator.sdk.workdir.delivery import Folder
from tfoperator.sdk.workdir.packing import mebibytes


class FolderOptions(msgspec.Struct, frozen=True):
    """The options for a folder on this machine that is copied to each replica."""

    workdir: Annotated[
        Path | None,
        typer.Option(
            "--workdir", help="Folder that is copied to each replica. Default for a program: the current folder."
        ),
    ] = None
    pip: Annotated[
        str | None,
        typer.Option(
            "--pip",
            help="File of packages, e.g. requirements.txt: pip installs them in each replica before the program "
            "starts.",
            metavar="REQUIREMENTS",
        ),
    ] = None
    max_size: Annotated[
        int,
        typer.Option(
            "--max-size", help="Refuse to copy a folder that is larger than this number of MiB.", metavar="MIB", min=1
        ),
    ] = 100

    def packed(self, program: str = "") -> Folder:
        """Return the packed folder. Print its size, and a warning about files that may be secrets.

        Raises WorkdirError if the folder lacks the file `program`, or can't be packed, and OSError if a file can't be
        read.
        """
        folder = Folder(self.workdir or Path(), self.pip or "", program, self.max_size << 20)
        package = folder.package
        size = mebibytes(len(package.content))
        note(f"the replicas will get {folder.name} (files: {len(package.names)}, {size} when packed)")
        if package.secrets:
            names = ", ".join(map(printable, package.secrets[:5]))
            note(f"warning: these files may be secrets: {names}; to exclude files, name them in .tfoperatorignore")
        return folder


class DryRun(StrEnum):
    """The value of `--dry-run`.

    With `none`, the command creates the objects. With `client`, it only checks them on this machine; with `server`, the
    API server checks them, too.
    """

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


def submit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE... [-- ARGS]",
            help="Manifests (YAML or JSON); - is stdin. Or one Python program; its own arguments follow after --.",
        ),
    ],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until every job has ended.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="With --wait: the longest time to wait, e.g. 90s or 1h30m.")
    ] = None,
    dry_run: Annotated[
        DryRun,
        typer.Option(
            "--dry-run",
            help="Only check the objects, without creating them: on this machine (client), or also in the API server "
            "(server).",
        ),
    ] = DryRun.NONE,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Show the replicas' output until the job ends. After Ctrl-C the job goes on."
        ),
    ] = False,
    attached: Annotated[bool, typer.Option("--attached", help="Like --follow, but Ctrl-C deletes the job.")] = False,
    output: ObjectOutput = ObjectFormat.TEXT,
    cluster: ClusterOptions = ClusterOptions(),
    folder: FolderOptions = FolderOptions(),
    program: ProgramOptions = ProgramOptions(),
) -> None:
    """Create TFJobs in a cluster: from manifests, or from a program (submit train.py --workers 2 --image IMAGE).

    All objects are checked first; if one has a mistake, nothing is created. ConfigMaps, Secrets, claims, Services and
    ServiceAccounts in the files are also created, in the order of the files. A program's folder is copied to each
    replica, except the files that git or .tfoperatorignore ignores.

    Exit code 0: created (with --wait: all jobs succeeded). 1: an object is not valid or was refused, or a job
    failed. 2: bad input. 124: the time limit is over.
    """
    deadline = optional_deadline(wait, timeout)
    sources, packed = _sources(files, folder, program)
    manifests = checked(sources, ", ".join(files), consequence="Nothing was submitted.", exit_code=EXIT_FAILED)
    is_real = dry_run is DryRun.NONE
    follow, wait = is_real and (follow or attached), is_real and (wait or follow or attached)
    if follow and sum(is_tfjob(manifest.obj) for manifest in manifests) > 1:
        raise CliError("--follow and --attached take exactly one job", "Nothing was submitted.")
    is_object = output in (ObjectFormat.JSON, ObjectFormat.YAML)
    if follow and is_object:
        raise CliError(f"--follow and --attached print the output of the replicas, so -o {output} is not possible")
    with _connect(cluster, dry_run) as connected:
        default = connected.namespace if connected else "default"
        places = [in_namespace(manifest, cluster.namespace, default) for manifest in manifests]
        client = connected if dry_run is not DryRun.CLIENT else None
        created: list[dict[str, Any]] = []
        try:
            for manifest, place in zip(manifests, places, strict=True):
                if is_tfjob(manifest.obj):
                    created.append(_create_job(client, manifest, place, packed, dry_run, output))
                else:
                    _create_other(client, manifest, place, dry_run)
        except Exception:
            if is_object and created:  # in the other formats, each line was printed when the job was created
                _print_jobs(created, output)
            raise
        code = _follow(client, created[0]["metadata"], attached=attached) if client and follow else 0
        if client and wait and not code:
            code = _wait(client, created, deadline)
        if client and wait and is_object:
            created = [_fetch(client, job) for job in created]
    if is_object:
        _print_jobs(created, output)
    raise typer.Exit(code)


def _print_jobs(created: Sequence[dict[str, Any]], output: ObjectFormat) -> None:
    jobs = [without_noise(job) for job in created]
    print_objects(jobs, output, single=len(jobs) == 1)


def _sources(files: list[str], folder: FolderOptions, options: ProgramOptions) -> tuple[list[Manifest], Folder | None]:
    """Return the objects to create, and the folder that is sent with them.

    Raises CliError if the options do not fit the files, ManifestError if a manifest can't be read, and WorkdirError if
    the folder can't be packed.
    """
    if not (options.module or is_program(files[0])):
        program_job(files, options)  # refuses these options
        manifests = [manifest for file in files for manifest in load_manifests(file)]
        return manifests, folder.packed() if folder.workdir or folder.pip else None
    if options.emit_yaml:
        raise CliError(
            "--emit-yaml is an option of `tfoperator run`", "To print the job here, use --dry-run=client -o yaml."
        )
    # `emit_yaml` makes a job for a cluster, which does not refer to files of this machine.
    there = msgspec.structs.replace(options, image=options.image or DEFAULT_BASE_IMAGE, emit_yaml=True)
    job = program_job(files, there)
    assert job is not None
    packed = folder.packed(files[0] if job.command == ["python", files[0]] else "")
    if packed.program:
        job = msgspec.structs.replace(job, command=["python", packed.program])
    return [Manifest(job.manifest(), files[0], 1)], packed


def _connect(cluster: ClusterOptions, dry_run: DryRun) -> AbstractContextManager[TFJobClient | None]:
    """Return a client. With `--dry-run=client`, the context manager returns None if no cluster is configured.

    Raises ConfigError if the configuration of the cluster can't be used, or, with any other `--dry-run`, is missing.
    """
    try:
        return cluster.connect()
    except NoClusterConfigured:
        if dry_run is not DryRun.CLIENT:
            raise
        return nullcontext()


def _create_job(
    client: TFJobClient | None,
    manifest: Manifest,
    place: str,
    folder: Folder | None,
    dry_run: DryRun,
    output: ObjectFormat,
) -> dict[str, Any]:
    metadata = manifest.obj["metadata"]
    made: dict[str, Any] = {**manifest.obj, "metadata": {**metadata, "namespace": place}}
    if folder is not None:
        made = folder.mounted(made)
    if client:
        with job_errors(place, str(metadata.get("name") or metadata.get("generateName"))):
            made = client.api.create(TFJOBS, place, made, decode_plain, dry_run=dry_run is DryRun.SERVER)
        _warn_of_multikueue(manifest, made)
    if client and folder is not None and dry_run is DryRun.NONE:
        with StatusLine("sending the folder"):
            folder.deliver(client.api, msgspec.convert(made["metadata"], ObjectMeta))
    name = f"tfjob.kubeflow.org/{made['metadata'].get('name', metadata.get('generateName'))}"
    if output is ObjectFormat.NAME:
        say(name)
    elif output is ObjectFormat.TEXT:
        say(f"{name} created" + (f" ({dry_run} dry run)" if dry_run is not DryRun.NONE else f" in {place}"))
    return made


def _warn_of_multikueue(manifest: Manifest, made: dict[str, Any]) -> None:
    """Print warnings about MultiKueue for the created object `made` that were not printed for the manifest.

    Kueue may set fields for MultiKueue when the API server creates the job. The manifest does not contain these fields.
    """
    warned_of = set(validate_multikueue(decode_tfjob(msgspec.json.encode(manifest.obj))))
    for problem in validate_multikueue(decode_tfjob(msgspec.json.encode(made))):
        if problem not in warned_of:
            note(f"{manifest.place(problem.field)}: warning: {problem}")


def _create_other(client: TFJobClient | None, manifest: Manifest, place: str, dry_run: DryRun) -> None:
    from tfoperator.local.manifest_resources import resource_of

    resource = resource_of(manifest.obj)
    if resource is None:
        note(f"{manifest.place()}: {title(manifest)} is skipped; create it with kubectl apply")
        return
    if client is None:
        return
    where = place if resource is not NAMESPACES else ""
    try:
        client.api.create(resource, where, manifest.obj, decode_plain, dry_run=dry_run is DryRun.SERVER)
    except AlreadyExistsError:
        note(f"{title(manifest)} already exists, and is not changed")
    else:
        note(f"{title(manifest)} created")


def _follow(client: TFJobClient, job: dict[str, Any], *, attached: bool) -> int:
    """Print the output of all replicas until the job ends; return 0.

    After Ctrl-C, delete the job if `attached` is true, and return EXIT_INTERRUPTED. If standard output is a pipe whose
    reader has ended (`| head`), do the same, and raise BrokenPipeError.
    """
    name, place = job["name"], job["namespace"]
    printer = LinePrinter(ReportFormat.TEXT, with_prefix=True)
    try:
        with StatusLine() as status, client.stream_job_logs(name, place, False, on_wait=status.update) as stream:
            for line in stream:
                printer.line(line)
    except (KeyboardInterrupt, BrokenPipeError) as error:
        if attached:
            client.delete_job(name, place)
            note(f"TFJob {name} is deleted")
        else:
            note(
                f"TFJob {name} is still running. To see its logs again: tfoperator logs {name} -f --all-replicas -n "
                f"{place}"
            )
            note(f"To delete it: tfoperator delete {name} -n {place}")
        if isinstance(error, BrokenPipeError):
            raise
        return EXIT_INTERRUPTED
    return 0


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
        return client.api.get(TFJOBS, job["metadata"]["namespace"], job["metadata"]["name"], decode_plain)
    except NotFoundError:  # the job may be deleted already, after a short ttlSecondsAfterFinished
        return job
