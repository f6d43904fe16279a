"""`tfoperator suspend NAME...` and `resume NAME...`: stop a job's pods for a while, and have it run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tfoperator.cli.changes import apply_to_each
from tfoperator.cli.cluster import Context, Kubeconfig, Namespace, connect
from tfoperator.cli.terminal.output import ObjectFormat, ObjectOutput

if TYPE_CHECKING:
    from tfoperator.api.v1.types import TFJob
    from tfoperator.sdk import TFJobClient


def _command(change: Callable[[TFJobClient, str], TFJob], done: str, help_text: str) -> Callable[..., None]:
    def command(
        names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The jobs.")],
        output: ObjectOutput = ObjectFormat.TEXT,
        namespace: Namespace = None,
        kubeconfig: Kubeconfig = None,
        context: Context = None,
    ) -> None:
        with connect(kubeconfig, context, namespace) as client:
            apply_to_each(client, names, lambda name: change(client, name), output, done=done)

    command.__doc__ = help_text
    return command


suspend = _command(
    lambda client, name: client.suspend_job(name), "suspended", "Stop the pods of TFJobs until they are resumed."
)
resume = _command(lambda client, name: client.resume_job(name), "resumed", "Have suspended TFJobs run.")
