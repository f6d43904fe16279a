"""The connection of client commands to a cluster: the options of kubectl, and clients for the selected cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tfoperator.kube.client import Client
from tfoperator.sdk import TFJobClient

_PANEL = "Cluster"


class ClusterOptions(msgspec.Struct, frozen=True):
    """The options that select the cluster, and clients for it."""

    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace. Default: the namespace of the kubeconfig's context.",
            metavar="NAME",
            rich_help_panel=_PANEL,
        ),
    ] = None
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            "--kubeconfig",
            help="Kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, or the cluster in which this command runs.",
            metavar="FILE",
            rich_help_panel=_PANEL,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option("--context", help="Context of the kubeconfig to use.", metavar="NAME", rich_help_panel=_PANEL),
    ] = None

    def connect(self, archive_dir: str | None = None) -> TFJobClient:
        """Return a client of jobs; use it as a context manager.

        `archive_dir` is the operator's log archive (a directory or a URL). Raises ConfigError if the options or the
        kubeconfig can't be used.
        """
        return TFJobClient(self.kubeconfig, self.context, self.namespace, archive_dir=archive_dir)

    def api(self) -> Client:
        """Return a client of the API server, for `tfoperator launch` and pipelines. The caller must close it.

        Raises ConfigError if the options or the kubeconfig can't be used.
        """
        from tfoperator.launcher.core.context import connect

        return connect(self.kubeconfig, self.context)

    def place(self) -> dict[str, str]:
        """Return the options that are set, as a dict. The record of a pipeline's run contains them."""
        kubeconfig = str(Path(self.kubeconfig).absolute()) if self.kubeconfig else ""
        place = {"namespace": self.namespace, "kubeconfig": kubeconfig, "context": self.context}
        return {name: value for name, value in place.items() if value}


AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Show all namespaces.")]
Selector = Annotated[
    str, typer.Option("--selector", "-l", help="Only jobs with these labels, e.g. team=vision.", metavar="LABELS")
]

JobName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")]
Replica = Annotated[
    str | None,
    typer.Option(
        "--replica", "-r", help="Only this replica (worker-1), or only this replica type (worker).", metavar="REPLICA"
    ),
]
ArchiveDir = Annotated[
    str | None,
    typer.Option(
        "--archive-dir",
        envvar="TFOPERATOR_ARCHIVE_DIR",
        help="The operator's log archive (a directory or a URL), which contains the logs of deleted pods.",
        metavar="DIR|URL",
    ),
]
