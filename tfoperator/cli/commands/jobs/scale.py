"""`tfoperator scale NAME --workers N`: change how many replicas a job has."""

from __future__ import annotations

from typing import Annotated

import typer

from tfoperator.api.names import parse_replica_type
from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.cli.changes import apply_to_each
from tfoperator.cli.cluster import Context, JobName, Kubeconfig, Namespace, connect
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.terminal.output import ObjectFormat, ObjectOutput, note


def scale(
    name: JobName,
    workers: Annotated[int | None, typer.Option("--workers", help="How many workers.", min=0)] = None,
    replicas: Annotated[
        list[str] | None, typer.Option("--replicas", help="How many of a type, e.g. PS=2.", metavar="TYPE=N")
    ] = None,
    output: ObjectOutput = ObjectFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Change the number of replicas of a TFJob."""
    wanted: dict[str, int] = dict(_count(text) for text in replicas or ())
    if workers is not None:
        wanted[ReplicaType.WORKER] = workers
    if not wanted:
        raise CliError("how many? Say --workers N, or --replicas TYPE=N")
    with connect(kubeconfig, context, namespace) as client:

        def change(name: str) -> TFJob:
            job = client.scale_job(name, wanted)
            if not job.spec.enable_dynamic_worker and job.status.start_time is not None:
                note("warning: the job lacks enableDynamicWorker, so running replicas won't learn of the change")
            return job

        apply_to_each(client, [name], change, output, done="scaled")


def _count(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    replica_type = parse_replica_type(name)
    if replica_type is None or not (number.isascii() and number.isdigit()):
        raise CliError(f"--replicas {text}: write it like PS=2; types are {', '.join(ReplicaType)}")
    return replica_type, int(number)
