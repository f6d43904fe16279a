"""`tfoperator suspend NAME...` and `resume NAME...`: stop a job's pods for a while, and have it run again."""

from __future__ import annotations

from typing import Annotated

import typer

from tfoperator.cli.changes import Change, apply_to_each
from tfoperator.cli.cluster import Context, Kubeconfig, Namespace, connect
from tfoperator.cli.output import ObjectFormat, ObjectOutput

__all__ = ["register", "resume", "suspend"]

_Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The jobs.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("suspend")(suspend)
    app.command("resume")(resume)


def suspend(
    names: _Names,
    output: ObjectOutput = ObjectFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Stop the pods of TFJobs until they are resumed."""
    with connect(kubeconfig, context, namespace) as client:
        apply_to_each(client, names, Change("suspended", client.suspend_job), output)


def resume(
    names: _Names,
    output: ObjectOutput = ObjectFormat.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Have suspended TFJobs run."""
    with connect(kubeconfig, context, namespace) as client:
        apply_to_each(client, names, Change("resumed", client.resume_job), output)
